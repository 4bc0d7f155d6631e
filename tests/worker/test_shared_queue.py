"""Workers of two applications on one queue: each runs its own jobs, whoever met them first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from onward.clock import SystemClock
from onward.definition import JobDefinition, define_job
from onward.driver import Store
from onward.drivers import connect
from onward.registry import Registry
from onward.worker.worker import Worker

MANY = 40
PATIENCE = 20.0
"""Seconds: fewer than a worker lets pass between its sweeps."""


@pytest.fixture
def open_store(database_url: str) -> Iterator[Callable[[], Store]]:
    """Each as another process would have it."""
    with ExitStack() as stores:
        yield lambda: stores.enter_context(closing(connect(database_url, clock=SystemClock(), migrate=True)))


def test_no_job_waits_for_a_sweep_because_the_wrong_worker_met_it(open_store: Callable[[], Store]) -> None:
    """Neither looks by itself, so each must be told of what the other has set aside."""
    ran = threading.Semaphore(0)

    def count(number: int) -> None:
        ran.release()

    jobs: list[JobDefinition[int]] = [define_job(name, count) for name in ("here", "there")]
    callers = open_store()
    with ExitStack() as workers:
        for job in jobs:
            worker = Worker(open_store(), Registry([job]), poll="1h", grace="5s")
            worker.start()
            workers.callback(worker.stop)
        for number in range(MANY):
            callers.enqueue([job.new_job(number) for job in jobs])
        for done in range(MANY * len(jobs)):
            assert ran.acquire(timeout=PATIENCE), f"only {done} of {MANY * len(jobs)} jobs were run"
