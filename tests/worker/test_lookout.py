"""A worker says that it is there, looks whether rules are broken, and tells of alerts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from onward.alert_rules import AlertRules
from onward.clock import FakeClock
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.errors import InvalidDefinition, StoreUnavailable
from onward.worker.worker import Worker
from tests.worker.conftest import Gate

Make = Callable[..., Worker]
note = define_job("note", lambda: None, aliases=["old_note"])


def test_a_worker_says_what_it_serves(store: MemoryStore, make_worker: Make) -> None:
    worker = make_worker(note, queues=["mail"], name="here", concurrency=3)
    assert worker.lookout.tick() == 30
    (known,) = store.workers()
    assert (known.lease_owner, known.name, known.queues, known.types, known.concurrency) == (
        worker.lease_owner,
        "here",
        ("mail",),
        ("note", "old_note"),
        3,
    )


def test_a_worker_that_ends_is_gone(store: MemoryStore, make_worker: Make) -> None:
    worker = make_worker(note)
    worker.lookout.tick()
    worker.lookout.leave()
    assert store.workers() == []
    worker.lookout.tick()
    assert store.workers() == [], "a tick that was running brought it back"


def test_a_real_worker_is_there_while_it_runs(store: MemoryStore, make_worker: Make) -> None:
    """And no more once it has stopped."""
    worker = make_worker(note)
    worker.start()
    worker.wait_until_idle()
    worker.stop()
    assert store.workers() == []


def test_one_that_is_told_to_stop_is_gone_while_its_last_job_still_runs(store: MemoryStore, make_worker: Make) -> None:
    """It takes no more jobs; and saying so must take nothing from the second that a stop has beyond its grace."""
    gate = Gate()
    slow = define_job("slow", gate, payload=int)
    store.enqueue([slow.new_job(1)])
    worker = make_worker(slow, grace="20s")
    worker.start()
    assert gate.begun.acquire(timeout=20)
    worker.lookout.tick()
    assert len(store.workers()) == 1
    worker.ask_to_stop()
    until = time.monotonic() + 15
    while store.workers():
        assert time.monotonic() < until
    assert not worker.finished.is_set()
    gate.open.set()
    worker.stop()


def test_a_drain_is_seen_by_nobody(store: MemoryStore, make_worker: Make) -> None:
    worker = make_worker(note, drain=True)
    worker.lookout.tick()
    assert store.workers() == []
    worker.lookout.leave()


def test_an_end_that_is_not_written_down_disturbs_nothing(store: MemoryStore, make_worker: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = make_worker(note)
    worker.lookout.tick()

    def fail(lease_owner: str) -> None:
        raise StoreUnavailable("down")

    monkeypatch.setattr(store, "withdraw", fail)
    worker.lookout.leave()


def test_a_broken_rule_is_told_once_by_one_worker(
    store: MemoryStore, make_worker: Make, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten minutes after it broke, and its end ten minutes after it was over."""
    caplog.set_level("INFO", logger="onward.worker")
    workers = [make_worker(note, alert_rules=AlertRules(depth=2)) for _ in range(2)]

    def look() -> list[str]:
        caplog.clear()
        clock.advance(300)
        for worker in workers:
            worker.lookout.tick()
        return [record.getMessage().partition(" (")[2] for record in caplog.records if record.getMessage().startswith("alert ")]

    assert look() == []
    ids = [job.id for job in [note.new_job(None) for _ in range(3)] if store.enqueue([job])]
    assert look() == []
    assert look() == ["depth): 3 jobs of note in queue default are due, more than 2"]
    assert look() == []
    for job_id in ids:
        store.cancel(job_id)
    assert look() == []
    assert look() == ["depth) is over: 3 jobs of note in queue default are due, more than 2"]
    assert look() == []


def test_without_rules_nobody_looks(store: MemoryStore, make_worker: Make, clock: FakeClock) -> None:
    worker = make_worker(note)
    for _ in range(5):
        clock.advance(3600)
        worker.lookout.tick()
    assert not store.take_look(AlertRules().every), "somebody had looked before"


def test_that_it_is_there_is_said_each_minute(store: MemoryStore, make_worker: Make, clock: FakeClock) -> None:
    worker = make_worker(note)
    seen = []
    for _ in range(5):
        worker.lookout.tick()
        seen.append((store.workers()[0].seen_at - clock.now()).total_seconds())
        clock.advance(30)
    assert seen == [0, -30, 0, -30, 0]


def test_a_budget_of_a_job_that_there_is_not_is_refused(make_worker: Make) -> None:
    with pytest.raises(InvalidDefinition, match=r"^AlertRules\(run_p95_of=...\): no job is called 'noet': did you mean 'note'"):
        make_worker(note, alert_rules=AlertRules(run_p95_of={"noet": "1h"}))
    make_worker(note, alert_rules=AlertRules(run_p95_of={"old_note": "1h"}))


def test_one_that_gave_up_is_there_no_more(store: MemoryStore, make_worker: Make) -> None:
    """It runs, and takes no job any more: nobody should count on it."""
    worker = make_worker(note)
    worker.lookout.tick()
    worker._give_up()
    until = time.monotonic() + 20
    while store.workers():
        assert time.monotonic() < until


def test_rules_that_look_often_set_the_pace(make_worker: Make) -> None:
    assert make_worker(note, alert_rules=AlertRules(every="2s")).lookout.tick() == 2
