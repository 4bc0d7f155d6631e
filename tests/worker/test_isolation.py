"""Jobs that run alone: what is written before they start, and whom the death of a process is held against."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from onward.app import Onward
from onward.clock import FakeClock
from onward.context import JobContext
from onward.definition import define_job
from onward.drivers.memory import MemoryStore
from onward.errors import StoreUnavailable
from onward.ids import new_id
from onward.retry import RetryPolicy
from onward.status import Status
from onward.turn import Extended, Extension
from onward.worker.started import StartedJobs, create_map
from onward.worker.worker import EXIT_STUCK, Worker
from tests.worker.conftest import PATIENCE, Gate, work_off

MakeWorker = Callable[..., Worker]


@pytest.fixture
def started() -> Any:
    made = StartedJobs(create_map(8))
    yield made
    made.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_the_store_knows_that_a_job_runs_alone_before_its_handler_starts(
    make_worker: MakeWorker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """Its death counts only from then on; and the event loop must not wait for the store meanwhile."""
    seen, threads = [], []
    extend = store.extend

    def noting(extensions: Sequence[Extension]) -> Extended:
        threads.append(threading.current_thread().name)
        return extend(extensions)

    def suspect(payload: int, ctx: JobContext) -> None:
        seen.append(store.get(ctx.job.id).ran_isolated)

    async def suspect_async(payload: int, ctx: JobContext) -> None:
        suspect(payload, ctx)

    monkeypatch.setattr(store, "extend", noting)
    work = define_job("work", suspect_async if is_async else suspect, isolated=True)
    store.enqueue([work.new_job(1)])
    work_off(make_worker(work))
    assert seen == [True]
    assert len(threads) == 1
    assert "loop" not in threads[0]


def test_a_job_with_neighbours_is_not_said_to_run_alone(make_worker: MakeWorker, store: MemoryStore) -> None:
    """Each such write costs a commit, and a plain loss must stay one that nobody is blamed for."""
    seen = []
    work = define_job("work", lambda payload, ctx: seen.append(store.get(ctx.job.id).ran_isolated), payload=int)
    store.enqueue([work.new_job(1)])
    work_off(make_worker(work))
    assert seen == [False]


def test_a_claim_that_was_taken_meanwhile_does_not_start(
    make_worker: MakeWorker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else has it: two runs at once is what the look is for."""
    starts: list[int] = []
    work = define_job("work", lambda payload: starts.append(payload), payload=int, isolated=True)
    job = work.new_job(1)
    store.enqueue([job])
    monkeypatch.setattr(store, "extend", lambda extensions: Extended(lost=frozenset([job.id])))
    work_off(make_worker(work))
    assert starts == []
    assert store.get(job.id).status is Status.IN_PROGRESS


def test_a_job_that_the_store_cannot_be_told_of_is_given_back(
    make_worker: MakeWorker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started without the note, it could kill one process after another and never be blamed."""
    extend, faults = store.extend, [StoreUnavailable("disk full")]

    def failing(extensions: Sequence[Extension]) -> Extended:
        if faults:
            raise faults.pop()
        return extend(extensions)

    monkeypatch.setattr(store, "extend", failing)
    starts: list[int] = []
    work = define_job("work", lambda payload: starts.append(payload), payload=int, isolated=True)
    job = work.new_job(1)
    store.enqueue([job])
    work_off(make_worker(work))
    after = store.get(job.id)
    assert (after.status, after.attempts, after.releases, starts) == (Status.COMPLETED, 1, 1, [1])


def test_a_cancelled_job_does_not_start_alone(make_worker: MakeWorker, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look that says it starts brings the request along."""
    starts: list[int] = []
    work = define_job("work", lambda payload: starts.append(payload), payload=int, isolated=True)
    job = work.new_job(1)
    store.enqueue([job])
    extend = store.extend

    def cancelling(extensions: Sequence[Extension]) -> Extended:
        store.cancel(job.id)
        return extend(extensions)

    monkeypatch.setattr(store, "extend", cancelling)
    work_off(make_worker(work))
    assert (store.get(job.id).status, starts) == (Status.CANCELLED, [])


# -- beside a handler that is given up -------------------------------------------------------------------------------


def stuck(worker: Worker, gate: Gate, clock: FakeClock) -> None:
    """Have the one job of the gate exceed its limit and its grace, and store that."""
    worker.producer.tick()
    gate.wait()
    clock.advance(15)
    worker.deadlines.tick()
    worker.producer.tick()


@pytest.mark.parametrize("supervised", [True, False])
def test_no_job_starts_alone_beside_a_handler_that_is_given_up(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, caplog: pytest.LogCaptureFixture, supervised: bool
) -> None:
    """That one can still kill the process. Others go on; under a supervisor a new process makes room, else it waits."""
    gate, alone = Gate(), threading.Event()
    hangs = define_job("hangs", gate, payload=int, timeout="10s", retry=RetryPolicy(base="1h"))
    suspect = define_job("suspect", lambda payload: alone.set(), payload=int, isolated=True)
    plain_ran = threading.Event()
    plain = define_job("plain", lambda payload: plain_ran.set(), payload=int)
    store.enqueue([hangs.new_job(1)])
    worker = make_worker(hangs, suspect, plain, concurrency=4, supervised=supervised)
    stuck(worker, gate, clock)
    job = suspect.new_job(2)
    store.enqueue([job])
    worker.producer.tick()
    worker.deadlines.tick()
    assert not worker.is_stopping
    store.enqueue([plain.new_job(3)])
    worker.producer.tick()
    assert plain_ran.wait(PATIENCE)
    assert not alone.is_set()
    clock.advance(5)
    with caplog.at_level(logging.CRITICAL):
        worker.deadlines.tick()
    assert "keeps a job waiting" in caplog.text
    assert worker.is_stopping is supervised
    assert worker.exit_code == (EXIT_STUCK if supervised else 0)
    gate.open.set()
    if not supervised:
        work_off(worker)
        assert alone.is_set()
        assert store.get(job.id).status is Status.COMPLETED


def test_a_drain_ends_although_a_handler_does_not(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """Its own next try must run alone, which it never could here: the end says so by its exit code, and the claim goes back."""
    gate = Gate()
    work = define_job("work", gate, payload=int, timeout="10s", retry=RetryPolicy(base="0s"))
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, concurrency=4, drain=True, grace=0)
    stuck(worker, gate, clock)
    worker.producer.tick()
    worker.deadlines.tick()
    clock.advance(5)
    worker.deadlines.tick()
    assert worker.run() == EXIT_STUCK
    after = store.get(job.id)
    assert (after.status, after.attempts, gate.starts) == (Status.QUEUED, 1, 1)
    gate.open.set()


def test_a_job_whose_lease_is_lost_stays_alone_until_it_ends(make_worker: MakeWorker, store: MemoryStore, clock: FakeClock) -> None:
    """Its row still says that it runs alone here: what a neighbour did would be held against it."""
    gate, plain_ran = Gate(), threading.Event()
    alone = define_job("alone", gate, payload=int, isolated=True, lease="10s")
    plain = define_job("plain", lambda payload: plain_ran.set(), payload=int, lease="60s")
    store.enqueue([alone.new_job(1)])
    worker = make_worker(alone, plain, concurrency=4)
    worker.producer.tick()
    gate.wait()
    clock.advance(8.1)
    worker.deadlines.tick()
    store.enqueue([plain.new_job(2)])
    worker.producer.tick()
    assert len(store.enqueued_jobs) == 1
    gate.open.set()
    until = threading.Event()
    while not plain_ran.is_set():
        worker.producer.tick()
        until.wait(0.01)
    work_off(worker)


# -- the map of what has started -------------------------------------------------------------------------------------


def test_a_handler_whose_lease_is_lost_is_named_until_it_ends(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, started: StartedJobs
) -> None:
    """It may kill the process yet, and its row may still name this one."""
    gate = Gate()
    work = define_job("work", gate, payload=int, lease="10s")
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, started=started)
    worker.producer.tick()
    gate.wait()
    clock.advance(8.1)
    worker.deadlines.tick()
    assert started.ids() == [job.id]
    gate.open.set()
    pause = threading.Event()
    while worker.slots.room(0) < worker.slots.size:
        pause.wait(0.01)
    assert started.ids() == []


def test_a_newer_claim_of_a_given_up_job_is_not_taken_for_one_that_started(
    make_worker: MakeWorker, store: MemoryStore, clock: FakeClock, started: StartedJobs
) -> None:
    """It only waits: if a neighbour kills the process now, the claim goes back uncounted."""
    gate = Gate()
    work = define_job("work", gate, payload=int, timeout="10s", retry=RetryPolicy(max_attempts=2, base="0s"))
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, started=started, concurrency=4)
    stuck(worker, gate, clock)
    worker.producer.tick()
    waiting = store.get(job.id)
    assert (waiting.status, waiting.fence, waiting.isolated) == (Status.IN_PROGRESS, 2, True)
    assert started.ids() == []
    store.recover(worker.lease_owner, started.ids())
    after = store.get(job.id)
    assert (after.status, after.attempts, after.lost_leases) == (Status.QUEUED, 1, 0)
    gate.open.set()


def test_an_id_of_another_form_has_no_mark_and_does_no_harm(started: StartedJobs) -> None:
    """A row that somebody wrote by hand: its job runs, and the map stays whole."""
    good = new_id()
    mark = started.add(good)
    assert [started.add(odd) for odd in ("", "short", "x" * 27, "é" * 13 + "é", "\ud800" * 26 + "x")] == [None] * 5
    assert started.ids() == [good]
    assert mark is not None
    started.remove(mark)
    assert [started.add(new_id()) is None for _ in range(9)] == [False] * 8 + [True]


def test_two_async_jobs_that_run_alone_never_meet(make_worker: MakeWorker, store: MemoryStore) -> None:
    """They go by way of a thread to the loop, which must not let two through."""
    inside, most = [0], [0]

    async def suspect(payload: int) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        await asyncio.sleep(0)
        inside[0] -= 1

    work = define_job("work", suspect, isolated=True)
    jobs = [work.new_job(number) for number in range(10)]
    store.enqueue(jobs)
    work_off(make_worker(work, concurrency=4))
    assert {store.get(job.id).status for job in jobs} == {Status.COMPLETED}
    assert most == [1]


def test_an_embedded_worker_names_the_jobs_that_it_cannot_isolate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One of them that kills its process ends the program that the worker is embedded in, and nobody would have been told."""
    jobs = [
        define_job(name, lambda payload: None, payload=str, isolated=is_it)
        for name, is_it in (("resize", True), ("crop", True), ("mail", False))
    ]
    jobs.append(define_job("convert", lambda payload: None, payload=str, isolated=True, queue="slow"))
    app = Onward(f"sqlite:///{tmp_path}/jobs.db", jobs=jobs)

    def warned(**options: Any) -> list[str]:
        caplog.clear()
        app.worker(drain=True, **options).run()
        return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]

    (said,) = warned(queues=["default"])
    assert "(crop, resize); pass app.worker(application='module:attribute')" in said
    assert "(convert, crop, resize)" in warned()[0]
    assert warned(queues=["mail"]) == []
    assert warned(application="tests.worker.isolated_app:app") == []


def test_a_store_in_memory_leads_no_process_to_its_jobs(make_worker: MakeWorker, caplog: pytest.LogCaptureFixture) -> None:
    """There is nothing to pass, so there is nothing to say."""
    make_worker(define_job("resize", lambda payload: None, payload=str, isolated=True), drain=True).run()
    assert [one for one in caplog.records if one.levelno == logging.WARNING] == []
