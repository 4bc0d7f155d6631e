"""Which commits wait for the disk: all of them, but for the turns of a worker that was told not to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onward.drivers.sqlite.file
from onward.clock import SystemClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.postgres.connections import StoreConnection
from onward.errors import InvalidSetting
from onward.outcome import Completed
from onward.testing.factories import make_new_job
from onward.turn import Demand, Settlement
from tests.postgres_server import POSTGRES_SERVERS

DEMAND = Demand(lease_owner="host:1:one", slots=10, types={"work": timedelta(seconds=60)})


@pytest.fixture(params=["sqlite", POSTGRES_SERVERS[0]])
def open_with(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Store]]:
    """``open_with(durability)``: a store whose URL says it, or nothing of it."""
    opened: list[Store] = []

    def open_store(durability: str) -> Store:
        url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue("emptied_postgres")(request.param)
        option = f"{'&' if '?' in url else '?'}durability={durability}" if durability else ""
        opened.append(connect(url + option, clock=SystemClock(), migrate=True))
        opened[0].open()
        return opened[0]

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each commit of a transaction, whether it waits for the disk."""
    seen: list[bool] = []
    commit, end = onward.drivers.sqlite.file.commit, StoreConnection.end

    def commit_and_look(connection: sqlite3.Connection, *rest: Any) -> None:
        seen.append(connection.execute("PRAGMA synchronous").fetchone()[0] == 2)
        commit(connection, *rest)

    def end_and_look(self: StoreConnection, *rest: Any) -> str:
        seen.append(psycopg.Cursor(self).execute("SHOW synchronous_commit").fetchone() == ("on",))
        return end(self, *rest)

    monkeypatch.setattr("onward.drivers.sqlite.file.commit", commit_and_look)
    monkeypatch.setattr(StoreConnection, "end", end_and_look)
    return seen


@pytest.mark.parametrize(("durability", "turns_wait"), [("", True), ("strict", True), ("relaxed", False)])
def test_only_turns_need_not_wait(open_with: Callable[[str], Store], waits: list[bool], durability: str, turns_wait: bool) -> None:
    """A claim or completion that a power cut takes back is done again; a job that was accepted could not be had back."""
    store = open_with(durability)

    def waited(act: Callable[[], Any]) -> tuple[Any, set[bool]]:
        waits.clear()
        answer = act()
        return answer, set(waits)

    for _ in range(2):
        assert waited(lambda: store.enqueue([make_new_job(), make_new_job()]))[1] == {True}
        claims = store.turn(demand=DEMAND).claims
        settlements = [Settlement(claim=one, outcome=Completed()) for one in claims]
        turn, waits_in_turn = waited(lambda: store.turn(settlements, DEMAND))  # noqa: B023 - called at once
        assert (len(turn.settled), waits_in_turn) == (2, {turns_wait})
        (parent,) = store.enqueue([make_new_job()])
        (taken,) = store.turn(demand=DEMAND).claims
        child = Settlement(claim=taken, outcome=Completed(), children=(make_new_job(delay=timedelta(hours=1), key=parent.id),))
        assert waited(lambda: store.turn([child], DEMAND))[1] >= {True}, "it may answer another enqueue of its key"  # noqa: B023 - as above
        last = store.enqueue([make_new_job(delay=timedelta(hours=1))])[0]
        assert waited(lambda: store.cancel(last.id))[1] == {True}  # noqa: B023 - as above
    with store.transaction() as connection:
        store.within(connection).enqueue([make_new_job()])
        asked = "PRAGMA synchronous" if store.capabilities.name == "sqlite" else "SHOW synchronous_commit"
        assert connection.execute(asked).fetchone()[0] in (2, "on")


def test_the_url_of_a_store_says_it(tmp_path: Path) -> None:
    """A supervisor hands it to its processes."""
    url = f"sqlite:///{tmp_path}/jobs.db?durability=relaxed"
    assert connect(url, clock=SystemClock()).url == url


@pytest.mark.parametrize("url", ["sqlite:///jobs.db", "postgresql://me@localhost/jobs"])
def test_another_word_is_refused(url: str) -> None:
    """Silence would be taken for the one that was meant."""
    with pytest.raises(InvalidSetting, match="durability must be strict or relaxed, not 'lax'"):
        connect(f"{url}?durability=lax", clock=SystemClock())
