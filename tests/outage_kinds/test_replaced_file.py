"""Somebody restores a copy of the file beneath running workers, or deletes its log: what is in the file that is there, counts."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward import Onward, define_job
from onward.errors import StoreUnavailable
from onward.inspection import JobFilter
from onward.status import Status
from tests.acceptance.worker_process import WorkerProcess

PATIENCE = 40.0
NOTE = define_job("note", lambda number, context: None, payload=int, key=str)
"""As ``tests.acceptance.jobs_app`` has it, which a worker loads."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Onward]:
    made = Onward(f"sqlite:///{tmp_path / 'jobs.db'}", jobs=[NOTE])
    yield made
    made.close()


def wait_for(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"never: {what}"
        time.sleep(0.02)


def completed(app: Onward) -> set[str]:
    return {job.id for job in app.store.find(JobFilter(statuses=(Status.COMPLETED,)), limit=1000)}


def is_sound(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def restore(copy: Path, database: Path) -> None:
    """As one should, but for the workers that run still."""
    for ending in ("-wal", "-shm"):
        database.with_name(database.name + ending).unlink(missing_ok=True)
    os.replace(copy, database)


@pytest.mark.timeout(120)
def test_running_processes_notice_a_restored_copy_and_write_nothing_to_it(app: Onward, tmp_path: Path) -> None:
    """They say what to do; whoever starts then works with what the copy holds, and loses nothing of it when the old ones end."""
    database, copy = tmp_path / "jobs.db", tmp_path / "copy.db"
    waiting = {app.enqueue(NOTE, number, delay="1h").id for number in range(5)}
    app.close()
    shutil.copy(database, copy)
    before = copy.read_bytes()
    with WorkerProcess(tmp_path, "--poll", "100ms") as worker:
        worker.wait_for("worker_started")
        later = app.enqueue(NOTE, 99).id
        wait_for(lambda: later in completed(app), "the worker ran a job")

        restore(copy, database)
        with pytest.raises(StoreUnavailable, match="was replaced by another file while in use: restart"):
            app.enqueue(NOTE, 100)
        wait_for(lambda: any("was replaced by another file" in line for line in worker.errors), "the worker said so")
        assert worker.process.poll() is None
        assert database.read_bytes() == before
        assert not database.with_name("jobs.db-wal").exists()

        with closing(Onward(f"sqlite:///{database}", jobs=[NOTE])) as new:
            accepted = new.enqueue(NOTE, 7, delay="1h").id  # in the new log, beside which the old processes now end
            app.close()
            assert worker.stop() == 0
            with WorkerProcess(tmp_path, "--poll", "100ms") as another:
                another.wait_for("worker_started")
                for job_id in (*waiting, accepted):
                    new.run_now(job_id)
                wait_for(lambda: completed(new) == {*waiting, accepted}, "all that the copy holds was completed")
                assert another.stop() == 0
    assert is_sound(database)


CRASH = """
    import os, signal, sys
    from onward import Onward, define_job
    job = define_job("note", lambda number, context: None, payload=int, key=str)
    app = Onward(sys.argv[1], jobs=[job])
    for number in range(5, 10):
        print(app.enqueue(job, number, delay="1h").id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("deleted", [("-shm",), ("-wal", "-shm")], ids=["the index of the log", "the log"])
def test_what_is_in_the_file_is_run_when_its_log_was_deleted_after_a_kill(app: Onward, tmp_path: Path, deleted: tuple[str, ...]) -> None:
    """What stood only in the log is gone with it; its index alone is made again, and nothing is gone."""
    database = tmp_path / "jobs.db"
    kept = {app.enqueue(NOTE, number, delay="1h").id for number in range(5)}
    app.close()  # takes the log over into the file
    command = [sys.executable, "-c", textwrap.dedent(CRASH), f"sqlite:///{database}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == -signal.SIGKILL
    in_the_log = set(done.stdout.split())
    assert len(in_the_log) == 5
    for ending in deleted:
        database.with_name(database.name + ending).unlink()

    expected = kept if "-wal" in deleted else kept | in_the_log
    with WorkerProcess(tmp_path, "--poll", "100ms") as worker:
        assert {job.id for job in app.store.find(JobFilter(), limit=100)} == expected
        for job_id in expected:
            app.run_now(job_id)
        wait_for(lambda: completed(app) == expected, "what the file holds was completed")
        assert worker.stop() == 0
    assert is_sound(database)
