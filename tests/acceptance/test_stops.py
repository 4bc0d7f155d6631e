"""Ten signals within a second end a worker within its grace and a second, whatever its handler does and its database."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from onward.app import Onward
from onward.status import Status
from tests.acceptance.stop_app import JOBS, LEASE
from tests.acceptance.worker_process import WorkerProcess
from tests.postgres_wheel import OwnServer
from tests.tcp_proxy import TcpProxy

ROUNDS = int(os.environ.get("STOP_ROUNDS", "2"))
"""For each kind of handler and of database; a release has 100 stops in all or more."""
GRACE, SIGNALS = 1.0, 10
LATEST = GRACE + 1.0 + (0.0 if "STOP_ROUNDS" in os.environ else 3.0)
"""Seconds. What is promised, where nothing runs beside it; in a whole suite a process may have to wait for its turn."""
PATIENCE = 40.0
ENDED = {0, 130}
"""By its own will, or by a second Ctrl-C that quits at once."""
HANDLERS = ("blocked", "blocks_the_loop", "blocked_alone", "holds_the_gil")


@contextmanager
def started(home: Path, app: Onward, handler: str) -> Iterator[tuple[WorkerProcess, str]]:
    """A worker in whose process this handler is under way, and the job's id."""
    job_id = app.enqueue(JOBS[handler], 1).id
    flags = ("--concurrency=4", f"--grace={GRACE}s", "--poll=0.1s", "--sweep=0.5s")
    with WorkerProcess(home, *flags, app="tests.acceptance.stop_app:app") as worker:
        log = home / "effects.log"
        _wait_for(lambda: log.exists() and f"start {job_id}" in log.read_text(), "the handler had begun")
        yield worker, job_id


def storm(worker: WorkerProcess, chance: random.Random) -> float:
    """Send the signals within a second, of one kind or of both, and give the seconds from the first to the end."""
    kinds = chance.choice(((signal.SIGTERM,), (signal.SIGTERM, signal.SIGINT)))
    family = [psutil.Process(worker.process.pid), *psutil.Process(worker.process.pid).children(recursive=True)]
    began = time.monotonic()
    for number in range(SIGNALS):
        until = began + number / SIGNALS
        while worker.process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        if worker.process.poll() is None:
            worker.process.send_signal(chance.choice(kinds))
    worker.process.wait(PATIENCE)
    took = time.monotonic() - began
    _, alive = psutil.wait_procs(family, 5)
    for process in alive:
        process.kill()
    assert not alive, f"left behind: {alive}"
    return took


@pytest.mark.timeout(60 * ROUNDS)
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_storm_of_signals_ends_a_worker_whose_handler_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: str) -> None:
    """The job is given back, and its try does not count."""
    monkeypatch.setenv("ONWARD_URL", f"sqlite:///{tmp_path / 'jobs.db'}")
    took = []
    with Onward(jobs=JOBS.values()) as app:
        for number in range(ROUNDS):
            with started(tmp_path, app, handler) as (worker, job_id):
                took.append(storm(worker, random.Random(f"{handler} {number}")))
            job = app.get(job_id)
            assert worker.process.returncode in ENDED
            assert (job.status, job.attempts, job.lost_leases) == (Status.QUEUED, 0, 0), "".join(worker.errors)
            app.cancel(job_id)
    print(f"{handler}: {ROUNDS} stops, the longest after {max(took):.2f} s")
    assert max(took) <= LATEST


@pytest.mark.timeout(90 * ROUNDS)
@pytest.mark.parametrize("database", ["stopped", "silent"])
def test_a_storm_of_signals_ends_a_worker_whose_database_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_postgres: OwnServer, database: str
) -> None:
    """Nothing can be given back then; the job is taken back once its lease is over."""
    took = []
    with TcpProxy.before(private_postgres.url) as proxy, Onward(private_postgres.url, jobs=JOBS.values(), migrate=True) as app:
        monkeypatch.setenv("ONWARD_URL", proxy.through(private_postgres.url))
        for number in range(ROUNDS):
            with started(tmp_path, app, HANDLERS[number % len(HANDLERS)]) as (worker, job_id):
                if database == "stopped":
                    private_postgres.stop("immediate")
                else:
                    proxy.silence()
                took.append(storm(worker, random.Random(f"{database} {number}")))
            if database == "stopped":
                private_postgres.start()
            proxy.restore()
            assert worker.process.returncode in ENDED
            assert app.get(job_id).status is Status.IN_PROGRESS
            _wait_for(lambda: _is_taken_back(app, job_id), "the job was taken back")
            app.cancel(job_id)
    print(f"{database} database: {ROUNDS} stops, the longest after {max(took):.2f} s")
    assert max(took) <= LATEST


def _is_taken_back(app: Onward, job_id: str) -> bool:
    app.store.sweep(list(JOBS))
    return app.get(job_id).status in (Status.QUEUED, Status.RETRYING)


def _wait_for(condition: object, what: str) -> None:
    """Another process can only be asked, so ask."""
    assert callable(condition)
    until = time.monotonic() + PATIENCE + LEASE
    while not condition():
        assert time.monotonic() < until, f"it took too long until {what}"
        time.sleep(0.01)
