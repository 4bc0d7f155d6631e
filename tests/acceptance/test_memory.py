"""What a worker holds does not grow with the jobs that failed, nor with those that are due later."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from onward.app import Onward
from onward.inspection import JobFilter
from onward.status import Status
from tests.acceptance.memory_app import JOBS, MEGABYTE
from tests.acceptance.worker_process import WorkerProcess

FAILING, LATER = int(os.environ.get("FAILING_JOBS", "2000")), int(os.environ.get("LATER_JOBS", "20000"))
"""A release has 20,000 and 200,000."""
WARM = 500
"""Jobs after which everything that a worker loads is loaded."""
BATCH = 10_000


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Onward]:
    monkeypatch.setenv("ONWARD_URL", f"sqlite:///{tmp_path / 'jobs.db'}")
    with Onward(jobs=JOBS.values()) as app:
        yield app


@pytest.mark.timeout(600)
def test_failed_jobs_leave_nothing_behind_in_the_worker(app: Onward, tmp_path: Path) -> None:
    """Each held a megabyte when it failed."""
    with _worker(tmp_path) as worker:
        _fail(app, worker, WARM)
        before = _resident(worker)
        most = _fail(app, worker, FAILING)
    print(f"{FAILING} failing jobs: {before / MEGABYTE:.1f} MB before, {most / MEGABYTE:.1f} MB at most")
    assert most - before < 30 * MEGABYTE


@pytest.mark.timeout(600)
def test_jobs_due_later_cost_the_worker_nothing(app: Onward, tmp_path: Path) -> None:
    """They wait in the store, and the worker goes on beside them."""
    with _worker(tmp_path) as worker:
        _run(app, WARM)
        before = _resident(worker)
        for _ in range(0, LATER, BATCH):
            app.enqueue_many([JOBS["nothing"].new_job(0, delay=timedelta(hours=1)) for _ in range(BATCH)])
        _run(app, WARM)
        most = _resident(worker)
        assert app.store.count(JobFilter(statuses=(Status.QUEUED,))) >= LATER
    print(f"{LATER} jobs due later: {before / MEGABYTE:.1f} MB before, {most / MEGABYTE:.1f} MB after")
    assert most - before < 20 * MEGABYTE


def _worker(home: Path) -> WorkerProcess:
    return WorkerProcess(home, "--processes=1", "--concurrency=8", "--poll=0.1s", app="tests.acceptance.memory_app:app")


def _resident(worker: WorkerProcess) -> int:
    """The resident memory of the supervisor's one worker process, in bytes."""
    (child,) = psutil.Process(worker.process.pid).children()
    return int(child.memory_info().rss)


def _fail(app: Onward, worker: WorkerProcess, count: int) -> int:
    """Run so many jobs that fail, and give the most memory that was seen meanwhile."""
    ended = app.store.count(JobFilter(statuses=(Status.DEAD_LETTER,))) + count
    app.enqueue_many([JOBS["fails"].new_job(number) for number in range(count)])
    most = 0
    while app.store.count(JobFilter(statuses=(Status.DEAD_LETTER,))) < ended:
        assert worker.process.poll() is None, "".join(worker.errors)[-2000:]
        if psutil.Process(worker.process.pid).children():
            most = max(most, _resident(worker))
        time.sleep(0.05)  # between two readings
    return most


def _run(app: Onward, count: int) -> None:
    ids = [accepted.id for accepted in app.enqueue_many([JOBS["nothing"].new_job(number) for number in range(count)])]
    while app.get(ids[-1]).status is not Status.COMPLETED:
        time.sleep(0.05)
