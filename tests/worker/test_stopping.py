"""How a worker stops: the grace, what is given back, and what is never lost on the way."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onward.clock import SystemClock
from onward.context import JobContext
from onward.definition import define_job
from onward.driver import Store
from onward.drivers.memory import MemoryStore
from onward.errors import StoreBusy
from onward.rollups import Tally
from onward.status import Status
from onward.turn import Demand, Settlement, Turn
from onward.worker.started import StartedJobs, create_map
from onward.worker.worker import Worker
from tests.worker.conftest import PATIENCE, Gate

MakeWorker = Callable[..., Worker]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(clock=SystemClock())


def test_running_jobs_end_within_the_grace_and_are_settled(make_worker: MakeWorker, store: MemoryStore) -> None:
    """A deploy loses no work."""
    begun = threading.Event()

    def until_told(payload: int, ctx: JobContext) -> str:
        begun.set()
        return "told" if ctx.wait_for_stop(PATIENCE) else "not told"

    work = define_job("work", until_told)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, grace="20s")
    worker.start()
    assert begun.wait(PATIENCE)
    assert worker.stop() == 0
    assert worker.was_clean
    assert (store.get(job.id).status, store.get(job.id).result) == (Status.COMPLETED, '"told"')


def test_a_handler_that_never_ends_has_its_job_given_back(make_worker: MakeWorker, store: MemoryStore) -> None:
    """The thread is left behind; the job is not, and its late return changes nothing."""
    gate = Gate()
    work = define_job("work", gate, payload=int)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, grace="50ms")
    worker.start()
    gate.wait()
    assert worker.stop() == 0
    assert not worker.was_clean
    after = store.get(job.id)
    assert (after.status, after.attempts, after.releases) == (Status.QUEUED, 0, 1)
    gate.open.set()


def test_an_async_handler_is_cancelled_at_the_end_of_the_grace_and_cleans_up(make_worker: MakeWorker, store: MemoryStore) -> None:
    """It is told first, and its clean-up runs before the job is given back."""
    begun, cleaned = threading.Event(), threading.Event()

    async def forever(payload: int) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    work = define_job("work", forever)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, grace="50ms")
    worker.start()
    assert begun.wait(PATIENCE)
    worker.stop()
    assert cleaned.is_set()
    assert worker.was_clean
    assert (store.get(job.id).status, store.get(job.id).attempts) == (Status.QUEUED, 0)


def test_what_has_not_started_is_given_back_at_once(make_worker: MakeWorker, store: MemoryStore) -> None:
    """A claim that only waited must not wait for the grace of its neighbours."""
    gate = Gate()
    work, alone = define_job("work", gate, payload=int), define_job("alone", lambda payload: None, payload=int, isolated=True)
    running, waiting = work.new_job(1, priority=5), alone.new_job(2)
    store.enqueue([running, waiting])
    worker = make_worker(work, alone, grace="20s")
    worker.start()
    gate.wait()
    worker.ask_to_stop()
    until = time.monotonic() + PATIENCE
    while store.get(waiting.id).status is not Status.QUEUED:
        assert time.monotonic() < until, "it was not given back"
        gate.open.wait(0.01)
    assert store.get(running.id).status is Status.IN_PROGRESS
    gate.open.set()
    worker.stop()
    assert store.get(running.id).status is Status.COMPLETED
    assert (store.get(waiting.id).attempts, store.get(waiting.id).releases) == (0, 1)


def test_an_outcome_is_stored_although_the_store_is_busy_at_the_stop(make_worker: MakeWorker) -> None:
    """The last write is the one that must not be lost."""

    class BusyAtTheEnd(MemoryStore):
        busy = 0

        def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
            if settlements and self.busy < 3:
                self.busy += 1
                raise StoreBusy("another writer")
            return super().turn(settlements, demand, tally)

    store = BusyAtTheEnd(clock=SystemClock())
    gate = Gate()
    work = define_job("work", gate, payload=int)
    job = work.new_job(1)
    store.enqueue([job])
    worker = make_worker(work, store=store, grace="20s")
    worker.start()
    gate.wait()
    worker.ask_to_stop()
    gate.open.set()
    worker.stop()
    assert store.busy == 3
    assert store.get(job.id).status is Status.COMPLETED


def test_a_stop_before_the_start_ends_at_once(make_worker: MakeWorker, store: MemoryStore) -> None:
    """A signal may come first."""
    work = define_job("work", lambda payload: None, payload=int)
    store.enqueue([work.new_job(1)])
    worker = make_worker(work)
    worker.ask_to_stop()
    assert worker.run() == 0
    assert len(store.enqueued_jobs) == 1


def test_an_embedded_worker_leaves_signals_alone(make_worker: MakeWorker, store: MemoryStore) -> None:
    """They belong to the program around it; and it may start in any thread."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    worker = make_worker(define_job("work", lambda payload: None, payload=int))
    thread = threading.Thread(target=worker.start)
    thread.start()
    thread.join(PATIENCE)
    assert worker.wait_until_idle(PATIENCE)
    assert [signal.getsignal(number) for number in numbers] == before
    worker.stop()
    assert [signal.getsignal(number) for number in numbers] == before


def test_an_enqueue_wakes_an_idle_worker(make_worker: MakeWorker, store: MemoryStore) -> None:
    """With a poll of an hour only the wake-up can bring the job."""
    done = threading.Event()
    work = define_job("work", lambda payload: done.set(), payload=int)
    worker = make_worker(work, poll="1h")
    worker.start()
    assert worker.wait_until_idle(PATIENCE)
    store.enqueue([work.new_job(1)])
    assert done.wait(PATIENCE)
    assert worker.wait_until_idle(PATIENCE)


def test_discrepancies_are_logged_at_the_start(make_worker: MakeWorker, caplog: pytest.LogCaptureFixture) -> None:
    """A file that vanished while no worker ran is found by the next one."""
    looked = threading.Event()

    class Found:
        checked, unchecked, discrepancies = 1, 0, ["a.txt is missing"]

    class Files:
        name = "files"

        def sweep(self, store: Store) -> list[str]:
            return ["half.tmp"]

        def reconcile(self, store: Store) -> Any:
            return Found

    class Last(Files):
        name = "last"

        def reconcile(self, store: Store) -> Any:
            looked.set()
            return Found

    class Broken(Files):
        name = "broken"

        def reconcile(self, store: Store) -> Any:
            raise OSError("no disk")

    with caplog.at_level(logging.INFO):
        worker = make_worker(reconcilers=[Broken(), Files(), Last()])
        worker.start()
        assert looked.wait(PATIENCE)
        worker.stop()
    text = caplog.text
    assert "reconciling broken failed" in text
    assert "files: a.txt is missing" in text
    assert "files: removed the leftover half.tmp" in text


def test_the_map_lists_what_started_and_forgets_what_is_settled(make_worker: MakeWorker, store: MemoryStore) -> None:
    """What a supervisor reads after a crash: started jobs count as lost, waiting ones do not."""
    descriptor = create_map(100)
    seen = StartedJobs(descriptor)
    started = StartedJobs(descriptor)
    os.close(descriptor)
    gate = Gate()
    work, alone = define_job("work", gate, payload=int), define_job("alone", lambda payload: None, payload=int, isolated=True)
    running, waiting = work.new_job(1, priority=5), alone.new_job(2)
    store.enqueue([running, waiting])
    worker = make_worker(work, alone, started=started)
    worker.start()
    gate.wait()
    assert seen.ids() == [running.id]
    gate.open.set()
    assert worker.wait_until_idle(PATIENCE)
    assert seen.ids() == []


def test_a_map_that_is_full_says_so_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """A mark too few must not stop a job, but the promise behind it is weaker then."""
    descriptor = create_map(1)
    started = StartedJobs(descriptor)
    os.close(descriptor)
    assert started.add("0" * 26) == 0
    assert started.add("1" * 26) is None
    assert started.add("2" * 26) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    started.remove(0)
    assert started.add("1" * 26) == 0
    assert started.ids() == ["1" * 26]


STUBBORN = """
import asyncio, threading
from onward import Onward, define_job

begun = threading.Event()


async def stubborn():
    begun.set()
    while True:
        try:
            await asyncio.Event().wait()
        except {caught}:
            {then}


work = define_job("work", stubborn)
app = Onward("memory://", jobs=[work])
job = app.enqueue(work)
worker = app.worker(grace="50ms")
worker.start()
assert begun.wait(30)
worker.stop()
print(worker.was_clean, job.refresh().status.value)
"""


@pytest.mark.parametrize(
    ("caught", "then"), [("asyncio.CancelledError", "pass"), ("BaseException as error", "if isinstance(error, GeneratorExit): return")]
)
def test_a_program_ends_in_silence_beside_an_async_handler_that_did_not(caught: str, then: str) -> None:
    """Python closes what is left of it at the exit. The worker has said that it was given up, and there is nothing more to do about it."""
    source = STUBBORN.format(caught=caught, then=then)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("False queued\n", "", 0)
