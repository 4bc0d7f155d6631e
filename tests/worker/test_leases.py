"""Leases, time limits, and what the worker believes of others after it was away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.context import JobContext
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.errors import LeaseLost, StoreUnavailable
from onward.events import Event
from onward.retry import RetryPolicy
from onward.status import Status
from onward.turn import Demand, Extended, Extension
from onward.worker.pace import MOST_AHEAD, Pace
from onward.worker.pulse import Pulse
from onward.worker.worker import EXIT_STUCK, Worker
from tests.worker.conftest import PATIENCE, Gate, work_off

MakeWorker = Callable[..., Worker]


def begin(worker: Worker, gate: Gate, runs: int = 1) -> None:
    worker.producer.tick()
    for _ in range(runs):
        gate.wait()


def test_a_heartbeat_looks_again_soon_while_nothing_runs(make_worker: MakeWorker) -> None:
    """A job may begin right after, and a person cancel it at once."""
    worker = make_worker(define_job("work", lambda number: number, payload=int))
    assert 0 < worker.heartbeat.tick() <= 1


def test_a_long_job_keeps_its_lease(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """Run time has nothing to do with being alive: ten leases later the job is still ours, and started once."""
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="60s")
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    begin(worker, gate)
    for _ in range(30):
        clock.advance(20)
        worker.heartbeat.tick()
        worker.deadlines.tick()
        assert store.sweep(["work"]).requeued == ()
    gate.open.set()
    work_off(worker)
    assert (store.get(job.id).status, gate.starts) == (Status.COMPLETED, 1)


def test_a_lease_is_renewed_when_a_third_of_it_is_over_and_not_each_look(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each renewal is a write; the looks between serve cancellations only."""
    renewals: list[int] = []
    extend = store.extend

    def counting(extensions: list[Extension]) -> Extended:
        renewals.append(len(extensions))
        return extend(extensions)

    monkeypatch.setattr(store, "extend", counting)
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="60s")
    store.enqueue([work.new_job(1)])
    worker = make_worker(work)
    begin(worker, gate)
    for _ in range(60):
        clock.advance(1)
        worker.heartbeat.tick()
    gate.open.set()
    work_off(worker)
    assert len(renewals) == 3


def test_a_job_whose_handler_exits_is_renewed_no_more(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a heartbeat outlives the run, and keeps a claim that nobody works on; its neighbour is renewed as before."""

    def leave(payload: int) -> None:
        raise SystemExit(3)

    renewed: list[str] = []
    extend = store.extend

    def noting(extensions: list[Extension]) -> Extended:
        renewed.extend(one.claim.id for one in extensions)
        return extend(extensions)

    monkeypatch.setattr(store, "extend", noting)
    gate = Gate()
    leaves = define_job("leaves", leave, lease="60s", retry=RetryPolicy(base="1h"))
    stays = define_job("stays", gate, payload=int, lease="60s")
    exited, running = leaves.new_job(1), stays.new_job(1)
    store.enqueue([exited, running])
    worker = make_worker(leaves, stays)
    begin(worker, gate)
    until = time.monotonic() + PATIENCE
    while store.get(exited.id).status is not Status.RETRYING:
        assert time.monotonic() < until
        worker.producer.rest(0.1)
        worker.producer.tick()
    for _ in range(6):
        clock.advance(20)
        worker.heartbeat.tick()
    gate.open.set()
    work_off(worker)
    assert set(renewed) == {running.id}
    assert store.get(exited.id).error is not None
    assert store.get(running.id).status is Status.COMPLETED


def test_progress_is_stored_on_the_way(make_worker: MakeWorker, store: MemoryStore) -> None:
    """A person who watches a long job sees it move before it ends."""
    reported, release = threading.Event(), threading.Event()

    def long(payload: int, ctx: JobContext) -> None:
        ctx.progress({"done": 1})
        reported.set()
        release.wait(PATIENCE)

    work = define_job("work", long)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    worker.producer.tick()
    assert reported.wait(PATIENCE)
    worker.heartbeat.tick()
    assert store.get(job.id).progress == '{"done":1}'
    release.set()
    work_off(worker)


def test_at_80_percent_of_a_lease_without_renewal_the_job_is_let_go(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, events: list[Event]
) -> None:
    """The store may hang; the handler must hear of it before another worker can have the job."""
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="10s")
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    begin(worker, gate)
    clock.advance(7.9)
    worker.deadlines.tick()
    assert not gate.contexts[0].should_stop
    clock.advance(0.2)
    worker.deadlines.tick()
    assert gate.contexts[0].should_stop
    with pytest.raises(LeaseLost):
        gate.contexts[0].check_lease()
    gate.open.set()
    work_off(worker)
    assert store.get(job.id).status is Status.IN_PROGRESS
    assert [event.event for event in events] == ["claimed", "lease_lost"]


def test_a_claim_taken_by_another_is_not_completed_here(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """A process that was frozen for longer than its lease finds its outcome refused."""
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="10s")
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    begin(worker, gate)
    clock.advance(11)
    store.sweep(["work"])
    store.turn((), Demand(lease_owner="other:1:x", slots=1, types={"work": timedelta(seconds=10)}))
    gate.open.set()
    work_off(worker)
    now = store.get(job.id)
    assert (now.status, now.lease_owner) == (Status.IN_PROGRESS, "other:1:x")


def test_the_heartbeat_tells_a_handler_whose_claim_was_taken(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """It can stop work that somebody else does again."""
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="10s")
    store.enqueue([work.new_job(1)])
    worker = make_worker(work)
    begin(worker, gate)
    store.recover(worker.lease_owner, [])
    clock.advance(4)
    worker.heartbeat.tick()
    with pytest.raises(LeaseLost):
        gate.contexts[0].check_lease()
    gate.open.set()
    work_off(worker)


# -- time limits -----------------------------------------------------------------------------------------------------


def test_a_thread_that_does_not_end_is_settled_as_timed_out_and_keeps_its_slot(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock
) -> None:
    """A thread cannot be stopped: its job goes on behind the fence, and its late return changes nothing."""
    gate = Gate()
    work = define_job("work", gate, payload=int, timeout="10s", retry=RetryPolicy(base="1h"))
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, concurrency=3, timeout_grace="5s")
    begin(worker, gate)
    clock.advance(10)
    worker.deadlines.tick()
    assert gate.contexts[0].should_stop
    assert store.get(job.id).status is Status.IN_PROGRESS
    clock.advance(5)
    worker.deadlines.tick()
    worker.producer.tick()
    after = store.get(job.id)
    assert after.status is Status.RETRYING
    assert "timed out after 10s" in (after.error or "")
    assert after.isolated
    assert worker.slots.room(0) == 2
    gate.open.set()
    until = time.monotonic() + PATIENCE
    while worker.slots.room(0) < 3:
        assert time.monotonic() < until, "its slot is not free"
        worker.producer.rest(0.01)
        worker.producer.tick()
    assert store.get(job.id) == after


def test_a_job_that_always_exceeds_its_limit_is_dead_lettered(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """The number of tries holds on every path."""

    def slow(payload: int, ctx: JobContext) -> str:
        clock.advance(3)
        return "ok"

    work = define_job("work", slow, timeout="2s", retry=RetryPolicy(max_attempts=2, base="0s"))
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    work_off(worker)
    work_off(worker)
    assert (store.get(job.id).status, store.get(job.id).attempts) == (Status.DEAD_LETTER, 2)


@pytest.mark.parametrize("supervised", [True, False])
def test_with_half_the_slots_stuck_no_more_is_claimed(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture, supervised: bool
) -> None:
    """Only a new process gets the threads back: a supervised one ends for it, an embedded one says so loudly."""
    gate = Gate()
    work = define_job("work", gate, payload=int, timeout="10s", retry=RetryPolicy(base="1h"))
    store.enqueue([work.new_job(number) for number in range(2)])
    worker = make_worker(work, concurrency=4, supervised=supervised)
    begin(worker, gate, runs=2)
    clock.advance(15)
    with caplog.at_level(logging.CRITICAL):
        worker.deadlines.tick()
    store.enqueue([work.new_job(9)])
    worker.producer.tick()
    assert len(store.enqueued_jobs) == 1
    assert worker.is_stopping is supervised
    assert worker.exit_code == (EXIT_STUCK if supervised else 0)
    assert caplog.records
    gate.open.set()


# -- after time away ---------------------------------------------------------------------------------------------------


def test_after_lost_time_others_get_a_heartbeat_before_a_sweep(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """A laptop wakes up: every lease looks old, also those of the healthy process beside this one."""
    work = define_job("work", lambda payload: None, payload=int, lease="60s")
    store.enqueue([work.new_job(1)])
    (claim,) = store.turn((), Demand(lease_owner="other:1:x", slots=1, types={"work": timedelta(seconds=60)})).claims
    worker = make_worker(work)
    worker.sweeper.tick()
    clock.advance(3600)
    worker.sweeper.tick()
    worker.heartbeat.tick()
    worker.sweeper.tick()
    assert store.get(claim.id).status is Status.IN_PROGRESS
    store.extend([Extension(claim)])
    clock.advance(21)
    worker.heartbeat.tick()
    worker.sweeper.tick()
    assert store.get(claim.id).status is Status.IN_PROGRESS


def test_a_process_that_slept_asks_before_it_lets_go(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, events: list[Event]
) -> None:
    """A laptop wakes up after ten leases: the handler is still at work, and nobody has taken its job."""
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="10s")
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work)
    begin(worker, gate)
    worker.deadlines.tick()
    clock.advance(100)
    worker.deadlines.tick()
    assert not gate.contexts[0].should_stop
    worker.heartbeat.tick()
    clock.advance(4)
    worker.deadlines.tick()
    gate.open.set()
    work_off(worker)
    assert (store.get(job.id).status, store.get(job.id).fence) == (Status.COMPLETED, 1)
    assert [event.event for event in events] == ["claimed", "completed"]


@pytest.mark.parametrize("answer", ["taken", "none"])
def test_a_process_that_slept_lets_go_of_what_is_taken_or_cannot_be_asked_for(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, answer: str
) -> None:
    """Another worker was awake, or the network is not back in time."""
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="10s")
    store.enqueue([work.new_job(1)])
    worker = make_worker(work)
    begin(worker, gate)
    worker.deadlines.tick()
    clock.advance(100)
    worker.deadlines.tick()
    if answer == "taken":
        store.sweep(["work"])
        worker.heartbeat.tick()
    else:
        clock.advance(3.4)
        worker.deadlines.tick()
    with pytest.raises(LeaseLost):
        gate.contexts[0].check_lease()
    gate.open.set()
    work_off(worker)


def test_sweeping_goes_on_after_the_wait(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, events: list[Event]) -> None:
    """Caution that never ended would leave dead workers' jobs for ever."""
    work = define_job("work", lambda payload: None, payload=int, lease="60s")
    store.enqueue([work.new_job(1)])
    (claim,) = store.turn((), Demand(lease_owner="dead:1:x", slots=1, types={"work": timedelta(seconds=60)})).claims
    worker = make_worker(work)
    clock.advance(3600)
    worker.sweeper.tick()
    worker.heartbeat.tick()
    clock.advance(21)
    worker.sweeper.tick()
    assert store.get(claim.id).status is Status.QUEUED
    assert [event.event for event in events] == ["reclaimed"]


def test_a_failure_of_the_store_holds_up_the_sweep_too(clock: FakeClock) -> None:
    """While the store was away nobody could renew."""
    pulse = Pulse(clock, 20)
    assert pulse.allows_sweep()
    pulse.fail()
    clock.advance(10)
    assert not pulse.allows_sweep()
    pulse.beat()
    clock.advance(19)
    assert not pulse.allows_sweep()
    clock.advance(1)
    assert pulse.allows_sweep()


def test_a_wall_clock_that_ran_on_alone_counts_as_lost_time(clock: FakeClock) -> None:
    """The monotonic clock of some systems stands still while the machine sleeps."""
    pulse = Pulse(clock, 20)
    clock.step(3600)
    assert not pulse.allows_sweep()


def test_a_failing_heartbeat_tries_again_within_its_interval(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """The general back-off of half a minute would lose every lease to a short outage."""

    def away(extensions: object) -> Extended:
        raise StoreUnavailable("away")

    gate = Gate()
    work = define_job("work", gate, payload=int, lease="3s")
    store.enqueue([work.new_job(1)])
    worker = make_worker(work)
    begin(worker, gate)
    store.extend = away  # type: ignore[method-assign]
    clock.advance(1.1)
    heartbeat, _ = worker.watching
    pauses = [heartbeat.step() for _ in range(20)]
    assert max(pauses) <= 1.0
    gate.open.set()
    work_off(worker)


# -- prefetch --------------------------------------------------------------------------------------------------------


def test_only_short_jobs_are_claimed_ahead() -> None:
    """Claims that wait in one process are kept from every other."""
    pace = Pace()
    assert pace.prefetch(0.0) == 0
    pace.ended(1.0, [0.006] * 10)
    assert pace.prefetch(1.0) == 0
    pace.ended(1.0, [0.001] * 64)
    assert pace.prefetch(1.01) == 74
    assert pace.prefetch(1.03) == 0
    pace.ended(2.0, [0.0001] * 5000)
    assert pace.prefetch(2.0) == MOST_AHEAD
