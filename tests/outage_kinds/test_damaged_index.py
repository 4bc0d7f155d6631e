"""The index of due jobs disagrees with their table: a claim says so, and neither spins nor passes the jobs behind it over in silence."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.errors import StoreUnavailable
from onward.ids import new_id
from onward.testing.factories import make_new_job
from onward.turn import Demand, Turn

CLAIM = "onward_jobs_claim"
WITHIN = 10.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = connect(f"sqlite:///{tmp_path / 'jobs.db'}", clock=FakeClock())
    made.open()
    yield made
    made.close()


@contextmanager
def without_index(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that writes to the table, and not to the index, which is there again behind the block."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        (row,) = connection.execute("SELECT * FROM sqlite_master WHERE name = ?", [CLAIM]).fetchall()
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", [CLAIM])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)


def claims_within(store: Store, slots: int) -> object:
    """What a turn gives, or raises; nothing if it is still at it."""
    ended: list[object] = []

    def turn() -> None:
        try:
            ended.append(store.turn(demand=Demand(lease_owner="host:1:me", slots=slots, types={"work": timedelta(seconds=60)})))
        except StoreUnavailable as error:
            ended.append(error)

    thread = threading.Thread(target=turn, daemon=True)
    thread.start()
    thread.join(WITHIN)
    return ended[0] if ended else None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "UPDATE onward_jobs SET id = '01HZZZZZZZZZZZZZZZZZZZZZZZ' WHERE id = ?1"),
        ("", "UPDATE onward_jobs SET status = 'completed' WHERE id = ?1"),
        ("UPDATE onward_jobs SET id = '0' WHERE id = ?1", "UPDATE onward_jobs SET id = ?1 WHERE id = '0'"),
    ],
    ids=["an id that the table has otherwise", "a job that is over", "an id that is none"],
)
@pytest.mark.parametrize("slots", [1, 3])
def test_an_entry_without_its_row_is_told(store: Store, tmp_path: Path, before: str, after: str, slots: int) -> None:
    """It was met by every claim for ever, in silence: with the lock held, or with the jobs behind it never run."""
    path = tmp_path / "jobs.db"
    jobs = [make_new_job() for _ in range(5)]
    store.enqueue(jobs)
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if before:
            connection.execute(before, [jobs[0].id])
    with without_index(path) as connection:
        connection.execute(after, [jobs[0].id])
    told = claims_within(store, slots)
    assert isinstance(told, StoreUnavailable), told
    assert "is damaged" in str(told)


def test_a_sound_index_is_believed(store: Store) -> None:
    store.enqueue([make_new_job() for _ in range(5)])
    assert isinstance(turn := claims_within(store, 3), Turn)
    assert len(turn.claims) == 3


@pytest.mark.parametrize("is_large", [False, True])
def test_doctor_compares_the_index_with_its_table(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool) -> None:
    """A job that the index misses is never claimed, and nothing but this look would tell. Of a large file it says that it did not look."""
    path = tmp_path / "jobs.db"
    store.enqueue([make_new_job()])
    store.close()
    with without_index(path) as connection:
        columns = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(onward_jobs)") if row[1] != "id")
        connection.execute(f"INSERT INTO onward_jobs (id, {columns}) SELECT '{new_id()}', {columns} FROM onward_jobs")
    monkeypatch.setattr("onward.drivers.sqlite.examine.LARGE_FILE", path.stat().st_size - is_large)
    (found,) = (one for one in store.examine() if one.name == "integrity")
    assert (found.level, "too large" in found.text) == (("ok", True) if is_large else ("error", False))
