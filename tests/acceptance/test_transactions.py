"""A job in the caller's own transaction, with a real worker process looking on."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from datetime import timedelta
from pathlib import Path

import aiosqlite
import pytest

from onward import JobNotFound, Onward
from tests.acceptance.worker_process import WorkerProcess


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Onward:
    monkeypatch.setenv("ACCEPTANCE_HOME", str(tmp_path))
    from onward import define_job

    def note(number: int) -> None: ...

    made = Onward(f"sqlite:///{tmp_path}/jobs.db", jobs=[define_job("note", note)])
    made.store.open()
    return made


def connect_as_an_application_would(home: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(os.path.join(home, "jobs.db"))
    connection.execute("CREATE TABLE IF NOT EXISTS orders(number INTEGER)")
    connection.commit()
    return connection


def test_a_rolled_back_transaction_leaves_no_trace_and_a_committed_one_runs(app: Onward, tmp_path: Path) -> None:
    """The promise and the data commit together, or neither does."""
    note = app.definitions["note"]
    connection = connect_as_an_application_would(tmp_path)
    with WorkerProcess(tmp_path, "--poll", "60s") as worker:
        worker.wait_for("worker_started")
        connection.execute("INSERT INTO orders VALUES (1)")
        undone = app.enqueue(note, 1, within=connection)
        connection.rollback()
        with connection:
            connection.execute("INSERT INTO orders VALUES (2)")
            kept = app.enqueue(note, 2, within=connection)
        assert worker.wait_for("completed")["job_id"] == kept.id
        assert worker.stop() == 0
    with pytest.raises(JobNotFound):
        app.get(undone.id)
    assert connection.execute("SELECT number FROM orders").fetchall() == [(2,)]
    # The poll is a minute away: only the commit itself can have woken the worker.
    started_at = app.get(kept.id).started_at
    assert started_at is not None
    assert started_at - app.get(kept.id).created_at < timedelta(seconds=10)
    assert undone.id not in {event.get("job_id") for event in worker.events}
    connection.close()
    app.close()


def test_an_awaited_connection_carries_a_job_as_well(app: Onward, tmp_path: Path) -> None:
    """An application on an event loop has the same promise."""
    note = app.definitions["note"]

    async def change() -> tuple[str, str]:
        async with aiosqlite.connect(tmp_path / "jobs.db") as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS orders(number INTEGER)")
            await connection.commit()
            undone = await app.aenqueue(note, 1, within=connection)
            await connection.rollback()
            kept = await app.aenqueue(note, 2, within=connection)
            await connection.commit()
            return undone.id, kept.id

    undone, kept = asyncio.run(change())
    with pytest.raises(JobNotFound):
        app.get(undone)
    assert app.get(kept).status == "queued"
    app.close()


def test_a_transaction_of_the_store_carries_data_and_job(app: Onward) -> None:
    """Where the application has no connection of its own, it borrows ours."""
    note = app.definitions["note"]
    with app.transaction() as connection:
        connection.execute("CREATE TABLE orders(number INTEGER)")
        kept = app.enqueue(note, 1, within=connection)
    assert app.get(kept.id).status == "queued"
    with pytest.raises(ZeroDivisionError), app.transaction() as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("INSERT INTO orders VALUES (1)")
        undone = app.enqueue(note, 2, within=connection)
        raise ZeroDivisionError
    with pytest.raises(JobNotFound):
        app.get(undone.id)
    with app.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    app.close()
