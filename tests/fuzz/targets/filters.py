"""Filters of jobs: memory and SQLite have the same answer to any question, and refuse with the same kind of error or not at all."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onward.app import Onward
from onward.clock import FakeClock
from onward.definition import define_job
from onward.drivers import connect
from onward.errors import OnwardError
from onward.inspection import JobFilter
from onward.outcome import DeadLettered
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import Demand, Settlement
from tests.fuzz.taking import Taker
from tests.fuzz.target import Target, must, texts

WORK = define_job("work", lambda: None)
_IDS = [f"01{number:024d}" for number in range(6)]


class Stores:
    """The same six jobs in memory and in a file."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="onward-fuzz-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        clock = FakeClock()
        self.apps = [Onward(store=connect(url, clock=clock), jobs=[WORK]) for url in ("memory://", f"sqlite:///{self._folder}/jobs.db")]
        for app in self.apps:
            app.store.enqueue(
                [make_new_job(id=one, key=f"k{at}", owner=("", "alice")[at % 2], queue=("a", "b")[at % 2]) for at, one in enumerate(_IDS)]
            )
            demand = Demand(lease_owner="host:1:x", slots=2, types={"work": timedelta(seconds=60)})
            claims = app.store.turn(demand=demand).claims
            app.store.turn([Settlement(claim=claim, outcome=DeadLettered("no")) for claim in claims])


_stores: list[Stores] = []


def check(data: bytes) -> None:
    if not _stores:
        _stores.append(Stores())
    take = Taker(data)
    where, text, limit = _filter(take), _text(take), take.choice([1, 2, 50, 2**31, 0, -1, 2**63 - 1, 2**63, 10**30])
    asked: list[Callable[[Onward], Any]] = [
        lambda app: app.store.count(where),
        lambda app: app.store.find(where, limit=max(1, min(limit, 500))),
        lambda app: app.find(key=where.key, owner=where.owner, limit=limit, before=text),
        lambda app: app.find(status=text, queue=text),
        lambda app: app.get(text, owner=where.owner),
        lambda app: app.history(text),
        lambda app: app.find_active_job(WORK, where.key or "k1", owner=where.owner or ""),
    ]
    for number, ask in enumerate(asked):
        one, other = (_answer(ask, app) for app in _stores[0].apps)
        must(one == other, f"question {number}: memory says {one!r:.200}, SQLite {other!r:.200}")


def _answer(ask: Callable[[Onward], Any], app: Onward) -> Any:
    try:
        found = ask(app)
    except OnwardError as error:
        return type(error)
    return [getattr(one, "id", one) for one in found] if isinstance(found, list) else getattr(found, "id", found)


def _filter(take: Taker) -> JobFilter:
    fields: dict[str, Any] = {}
    for name in ("types", "queues", "ids"):
        fields[name] = tuple(_text(take) for _ in range(take.number(3)))
    fields["statuses"] = tuple(take.choice(list(Status)) for _ in range(take.number(2)))
    for name in ("key", "owner"):
        fields[name] = _text(take) if take.number(2) else None
    if take.number(3) == 0:
        fields["finished_after"] = datetime(1 + take.number(9999), 1, 1, tzinfo=UTC)
    return JobFilter(**fields)


def _text(take: Taker) -> str:
    if take.number(2):
        return take.text(30)
    return take.choice(["work", "a", "b", "alice", "k1", "dead_letter", "queued", "' OR 1=1 --", "\0", "%", *_IDS])


TARGET = Target(
    "filters", check, texts("\x00\x01", "\x01\x10", "\x02", "' OR 1=1 --", "\x05", "work"), ("work", "alice", "' OR 1=1 --", "queued")
)
