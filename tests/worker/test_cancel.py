"""A person asks for the end of a running job: the handler is told, waited for, and given up; one that has not begun never begins."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from onward.clock import FakeClock, SystemClock
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.events import Event
from onward.status import Status
from onward.turn import Demand
from onward.worker.worker import EXIT_STUCK, Worker
from tests.worker.conftest import PATIENCE, Gate, work_off

MakeWorker = Callable[..., Worker]
LEASE = timedelta(seconds=60)


def tell(worker: Worker, clock: FakeClock) -> None:
    """The worker looks, and hears of what a person asked."""
    clock.advance(2)
    worker.heartbeat.tick()


def claim_ahead(worker: Worker, store: MemoryStore) -> None:
    """Have the worker hold more claims than it has slots, as it does while jobs are quick."""
    store.turn((), Demand(lease_owner=worker.lease_owner, slots=9, types=dict.fromkeys(("work", "long", "alone", "short"), LEASE)))
    worker.producer.doubt()
    worker.producer.tick()


def wait_for_slots(worker: Worker, free: int) -> None:
    until = time.monotonic() + PATIENCE
    while worker.slots.room(0) < free:
        assert time.monotonic() < until, "its slot is not free"
        worker.producer.rest(0.01)
        worker.producer.tick()


def test_a_thread_that_does_not_listen_is_given_up_after_the_grace(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can stop it: its job is cancelled behind the fence, it keeps its slot, and its late return changes nothing."""
    gate = Gate()
    work = define_job("work", gate, payload=int)
    job = work.new_job(1, key="k")
    store.enqueue([job])
    worker = make_worker(work, concurrency=3, timeout_grace="5s")
    worker.producer.tick()
    gate.wait()
    store.cancel(job.id)
    tell(worker, clock)
    assert gate.contexts[0].should_stop
    assert worker.deadlines.tick() == pytest.approx(5)
    clock.advance(4.9)
    worker.deadlines.tick()
    worker.producer.tick()
    assert store.get(job.id).status is Status.IN_PROGRESS
    clock.advance(0.1)
    with caplog.at_level(logging.ERROR):
        worker.deadlines.tick()
    worker.producer.tick()
    after = store.get(job.id)
    assert (after.status, after.error, after.attempts) == (Status.CANCELLED, "cancelled while it ran", 1)
    assert f"job {job.id} (work) did not end within 5 s of being cancelled; it holds its slot until it does" in caplog.text
    assert worker.slots.room(0) == 2
    gate.open.set()
    wait_for_slots(worker, 3)
    assert store.get(job.id) == after
    assert [attempt.outcome for attempt in store.history(job.id)] == ["cancelled"]


def test_an_async_handler_that_swallows_it_is_given_up_after_the_grace(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock
) -> None:
    """``except BaseException`` around an await keeps a task alive, and must not keep its job."""
    begun, swallowed, go = threading.Event(), threading.Event(), threading.Event()

    async def stubborn(payload: int) -> None:
        begun.set()
        while not go.is_set():
            try:
                await asyncio.sleep(3600 if not swallowed.is_set() else 0.01)
            except asyncio.CancelledError:
                swallowed.set()

    work = define_job("work", stubborn)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, concurrency=3, timeout_grace="5s")
    worker.producer.tick()
    assert begun.wait(PATIENCE)
    store.cancel(job.id)
    tell(worker, clock)
    assert swallowed.wait(PATIENCE)
    clock.advance(5)
    worker.deadlines.tick()
    worker.producer.tick()
    after = store.get(job.id)
    assert after.status is Status.CANCELLED
    go.set()
    wait_for_slots(worker, 3)
    assert store.get(job.id) == after


def test_a_handler_that_is_told_is_told_once(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """It is asked for at each look, and an async handler that cleans up must not be cancelled in that. The grace begins with the first."""
    begun, told, go = threading.Event(), threading.Semaphore(0), threading.Event()

    async def cleans_up(payload: int) -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        told.release()
        while not go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                told.release()

    work = define_job("work", cleans_up)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, timeout_grace="5s")
    worker.producer.tick()
    assert begun.wait(PATIENCE)
    store.cancel(job.id)
    tell(worker, clock)
    assert told.acquire(timeout=PATIENCE)
    store.cancel(job.id)
    tell(worker, clock)
    tell(worker, clock)
    assert worker.deadlines.tick() == pytest.approx(1)
    go.set()
    work_off(worker)
    assert not told.acquire(blocking=False)
    assert store.get(job.id).status is Status.COMPLETED


def test_one_that_waits_in_a_worker_ends_at_the_next_look_and_never_begins(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, events: list[Event]
) -> None:
    """It was claimed ahead, and what it waits for may take an hour."""
    gate = Gate()
    work = define_job("work", gate, payload=int)
    jobs = [work.new_job(number) for number in range(3)]
    store.enqueue(jobs)
    worker = make_worker(work, concurrency=1)
    claim_ahead(worker, store)
    gate.wait()
    store.cancel(jobs[1].id)
    tell(worker, clock)
    worker.producer.tick()
    assert [store.get(job.id).status for job in jobs] == [Status.IN_PROGRESS, Status.CANCELLED, Status.IN_PROGRESS]
    assert [event.job_id for event in events if event.event == "cancelled"] == [jobs[1].id]
    gate.open.set()
    work_off(worker)
    assert [store.get(job.id).status for job in jobs] == [Status.COMPLETED, Status.CANCELLED, Status.COMPLETED]
    assert gate.starts == 2


def test_one_that_was_to_run_alone_holds_up_nobody_once_it_is_cancelled(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock
) -> None:
    """The others wait for it, and it waits for a handler that takes its time."""
    first, second = Gate(), Gate()
    long, short = define_job("long", first, payload=int), define_job("short", second, payload=int)
    alone = define_job("alone", second, payload=int, isolated=True)
    jobs = [long.new_job(1), alone.new_job(2), short.new_job(3)]
    store.enqueue(jobs)
    worker = make_worker(long, alone, short, concurrency=2)
    claim_ahead(worker, store)
    first.wait()
    assert second.starts == 0
    store.cancel(jobs[1].id)
    tell(worker, clock)
    second.wait()
    first.open.set()
    second.open.set()
    work_off(worker)
    assert [store.get(job.id).status for job in jobs] == [Status.COMPLETED, Status.CANCELLED, Status.COMPLETED]


def test_a_cancellation_is_watched_though_the_next_look_was_far_off(make_worker: MakeWorker) -> None:
    """With a lease of an hour the next one would come after most of it."""
    store = MemoryStore(clock=SystemClock())
    begun, go = threading.Event(), threading.Event()

    def deaf(payload: int) -> None:
        begun.set()
        go.wait(3 * PATIENCE)

    work = define_job("work", deaf, lease="1h")
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, store=store, poll=0.01, timeout_grace="50ms")
    worker.start()
    assert begun.wait(PATIENCE)
    store.cancel(job.id)
    until = time.monotonic() + PATIENCE
    while not store.get(job.id).status.is_final:
        assert time.monotonic() < until, "nobody looked at its grace"
        time.sleep(0.01)
    go.set()
    assert store.get(job.id).status is Status.CANCELLED


@pytest.mark.parametrize("supervised", [True, False])
def test_handlers_that_ignore_it_in_half_of_the_slots_cost_their_process(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, supervised: bool
) -> None:
    """As with those that ignore their time limit: nothing else gets the threads back."""
    gate = Gate()
    work = define_job("work", gate, payload=int)
    jobs = [work.new_job(number) for number in range(2)]
    store.enqueue(jobs)
    worker = make_worker(work, concurrency=4, supervised=supervised, timeout_grace="5s")
    worker.producer.tick()
    for job in jobs:
        gate.wait()
        store.cancel(job.id)
    tell(worker, clock)
    clock.advance(5)
    worker.deadlines.tick()
    assert (worker.is_stopping, worker.exit_code) == ((True, EXIT_STUCK) if supervised else (False, 0))
    gate.open.set()


def test_the_sweep_says_that_a_job_whose_worker_is_gone_was_cancelled(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, events: list[Event]
) -> None:
    """Whoever counts what ends would never hear of it."""
    work = define_job("work", lambda payload: None, payload=int, lease="60s")
    job = work.new_job(1)
    store.enqueue([job])
    store.turn((), Demand(lease_owner="other:1:x", slots=1, types={"work": LEASE}))
    store.cancel(job.id)
    clock.advance(61)
    make_worker(work).sweeper.tick()
    assert store.get(job.id).status is Status.CANCELLED
    assert [(event.event, event.job_id, event.error) for event in events] == [("cancelled", job.id, "cancelled while it ran")]
