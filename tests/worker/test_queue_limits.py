"""``Onward(limits=...)``: what code says of queues is stored by its workers, before they claim."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from onward.app import Onward
from onward.definition import define_job
from onward.limit import Limit

ONE = Limit(concurrency=1)


def work() -> None:
    """Has nothing to do."""


letter = define_job("letter", work, queue="mail")


@pytest.fixture
def app() -> Iterator[Onward]:
    with Onward("memory://", jobs=[letter], limits={"mail": ONE, "files": Limit(rate="10/s")}) as app:
        yield app


def stored(app: Onward) -> dict[str, Limit]:
    return {one.state.name: one.state.limit for one in app.limits.list()}


def test_a_worker_stores_what_the_code_says(app: Onward) -> None:
    """So every worker of the store keeps to it, also one of older code. It stays until it is cleared."""
    app.worker(drain=True).run()
    assert stored(app) == app.queue_limits
    assert not any(one.state.is_by_hand for one in app.limits.list())
    Onward(store=app.store, jobs=[letter]).worker(drain=True).run()
    assert stored(app) == app.queue_limits
    assert app.limits.clear(queue="files")
    Onward(store=app.store, jobs=[letter]).worker(drain=True).run()
    assert stored(app) == {"mail": ONE}


def test_a_newer_limit_in_code_takes_the_place_of_an_older_one(app: Onward) -> None:
    """And not that of one that a person has set."""
    app.worker(drain=True).run()
    app.limits.set(Limit(concurrency=9), queue="files")
    newer = {"mail": Limit(concurrency=2), "files": Limit(concurrency=3)}
    Onward(store=app.store, jobs=[letter], limits=newer).worker(drain=True).run()
    assert stored(app) == {"mail": Limit(concurrency=2), "files": Limit(concurrency=9)}


def test_the_first_claim_knows_the_limits(app: Onward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the first worker after a deploy begins as many jobs as it has slots."""
    known_at_claim: list[dict[str, Limit]] = []
    has_claimed = Event()
    worker = app.worker(concurrency=4, poll="10ms")
    turn, tick = app.store.turn, worker.scheduler.tick

    def watched_turn(*args: Any, **kwargs: Any) -> Any:
        known_at_claim.append(stored(app))
        has_claimed.set()
        return turn(*args, **kwargs)

    def late_tick() -> float:
        has_claimed.wait(0.2)  # as where the database answers late
        return tick()

    monkeypatch.setattr(app.store, "turn", watched_turn)
    monkeypatch.setattr(worker.scheduler, "tick", late_tick)
    worker.start()
    assert has_claimed.wait(20)
    worker.stop()
    assert known_at_claim[0] == app.queue_limits
