"""A laptop sleeps, or a virtual machine is paused: every process stops for ten leases, and then goes on where it was."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from onward.app import Onward
from onward.drivers.sqlite.driver import SQLiteStore
from onward.inspection import JobFilter
from onward.status import Status
from tests.acceptance.stop_app import JOBS, LEASE
from tests.acceptance.worker_process import WorkerProcess

PATIENCE = 40.0
SLEEP = 10 * LEASE
KINDS = ("in_a_thread", "on_the_loop", "isolated")
WORKERS, JOBS_OF_A_KIND = 2, 3


@pytest.mark.timeout(120)
def test_after_a_sleep_running_jobs_go_on_and_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    """All leases ran out long ago, and nobody was awake to take a job: each is still its handler's."""
    monkeypatch.setenv("ONWARD_URL", database_url)
    flags = ("--processes=2", "--concurrency=4", "--grace=5s", "--poll=0.2s", "--sweep=0.3s")
    with Onward(database_url, jobs=JOBS.values(), migrate=True) as app, ExitStack() as workers:
        app.store.open()
        ids = [app.enqueue(JOBS[kind], number).id for kind in KINDS for number in range(JOBS_OF_A_KIND)]
        started = [
            workers.enter_context(WorkerProcess(tmp_path, *flags, app="tests.acceptance.stop_app:app")).process.pid for _ in range(WORKERS)
        ]
        log = tmp_path / "effects.log"
        _wait_for(lambda: log.exists() and log.read_text().count("start") == len(ids))
        family = [one for pid in started for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))]
        _sleep(app, family)
        _wait_for(lambda: _are_renewed(app))
        (tmp_path / "go").touch()
        _wait_for(lambda: all(app.get(job_id).status is Status.COMPLETED for job_id in ids))
        assert Counter(line.rsplit(" ", 1)[0] for line in log.read_text().splitlines()) == Counter(
            f"{what} {job_id}" for job_id in ids for what in ("start", "end")
        )
        assert {(job.fence, job.attempts, job.lost_leases) for job in map(app.get, ids)} == {(1, 1, 0)}


def _sleep(app: Onward, family: list[psutil.Process]) -> None:
    """Stop them all, and let them go on in any order."""
    with ExitStack() as stack:
        if isinstance(app.store, SQLiteStore):
            stack.enter_context(app.transaction())  # else one could be stopped with the write lock in its hands, as no sleep does
        for process in family:
            os.kill(process.pid, signal.SIGSTOP)
        _wait_for(lambda: all(process.status() == psutil.STATUS_STOPPED for process in family))
    time.sleep(SLEEP)
    random.Random(SLEEP).shuffle(family)
    for process in family:
        os.kill(process.pid, signal.SIGCONT)


def _are_renewed(app: Onward) -> bool:
    found = app.store.find(JobFilter(statuses=(Status.IN_PROGRESS,)), limit=100)
    return bool(found) and all(job.lease_until is not None and job.lease_until > app.store.clock.now() for job in found)


def _wait_for(condition: Callable[[], bool]) -> None:
    """Other processes can only be asked, so ask."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
