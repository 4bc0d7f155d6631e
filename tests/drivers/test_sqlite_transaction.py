"""The store's own transaction in an application's hands."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import TransactionOpen, TransactionTooLong
from onward.inspection import JobFilter
from onward.testing.factories import make_new_job

AT_ONCE = timedelta(milliseconds=20)
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    store.open()
    yield store
    store.close()


@pytest.mark.parametrize(
    "end",
    [
        lambda connection: connection.commit(),
        lambda connection: connection.rollback(),
        lambda connection: connection.close(),
        lambda connection: connection.__enter__(),
        lambda connection: connection.executescript("SELECT 1"),
        lambda connection: connection.cursor().executescript("SELECT 1"),
        lambda connection: connection.execute("COMMIT"),
        lambda connection: connection.execute("  -- done\n /* x */ end transaction"),
        lambda connection: connection.cursor().execute("ROLLBACK"),
        lambda connection: connection.execute("BEGIN"),
    ],
    ids=["commit", "rollback", "close", "with", "script", "script of a cursor", "COMMIT", "END", "ROLLBACK", "BEGIN"],
)
def test_it_cannot_be_ended_inside(store: SQLiteStore, end: Callable[[Any], Any]) -> None:
    """A commit in the middle would tear the job from its data, and nobody would notice."""
    with store.transaction() as connection:
        connection.execute("CREATE TABLE mine (x)")
        with pytest.raises(TransactionOpen, match="with"):
            end(connection)
        store.within(connection).enqueue([make_new_job()])
    assert store.count(JobFilter()) == 1


def test_savepoints_are_the_applications_own(store: SQLiteStore) -> None:
    """They undo a part, and end nothing."""
    with store.transaction() as connection:
        connection.execute("CREATE TABLE mine (x)")
        connection.execute("SAVEPOINT a")
        connection.execute("INSERT INTO mine VALUES (1)")
        connection.execute("ROLLBACK TO a")
        connection.execute("RELEASE a")
        connection.executemany("INSERT INTO mine VALUES (?)", [(2,), (3,), (4,)])
        cursor = connection.execute("SELECT x FROM mine ORDER BY x")
        assert (cursor.fetchone(), cursor.fetchmany(1), list(cursor)) == ((2,), [(3,)], [(4,)])


def test_an_error_of_the_applications_own_stays_what_it_is(store: SQLiteStore) -> None:
    """It is the application's statement, and it may catch its own constraint."""
    with pytest.raises(sqlite3.OperationalError), store.transaction() as connection:
        connection.execute("SELECT * FROM nowhere")
    assert store.enqueue([make_new_job()])[0].is_new


def test_row_factories_do_not_reach_the_store(store: SQLiteStore) -> None:
    """An application sets them for its own queries."""
    with store.transaction() as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        (accepted,) = store.within(connection).enqueue([make_new_job(key="k")])
        assert connection.execute("SELECT 'a' AS a").fetchone()["a"] == b"a"
    assert store.get(accepted.id).idempotency_key == "k"


def test_a_statement_that_never_ends_is_interrupted(store: SQLiteStore) -> None:
    """All other writers wait for it, so it cannot be allowed to take as long as it likes."""
    with pytest.raises(TransactionTooLong, match="20ms"), store.transaction(limit=AT_ONCE) as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("CREATE TABLE mine (x)")
        connection.execute(ENDLESS)
    assert store.enqueue([make_new_job()])[0].is_new
    with store.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'mine'").fetchone() == (0,)


def test_the_lock_is_free_while_the_block_still_sleeps(store: SQLiteStore) -> None:
    """Rolled back at the limit, not when the handler happens to come back."""
    other = sqlite3.connect(store.path, isolation_level=None, timeout=30)
    with pytest.raises(TransactionTooLong), store.transaction(limit=AT_ONCE) as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("CREATE TABLE mine (x)")
        other.execute("BEGIN IMMEDIATE")
        other.execute("COMMIT")
        for use in (lambda: connection.execute("SELECT 1"), connection.cursor, lambda: connection.in_transaction):
            with pytest.raises(TransactionTooLong):
                use().fetchone()
    other.close()


def test_two_threads_use_it_one_after_the_other(store: SQLiteStore) -> None:
    """sqlite3 itself gives no such promise for one connection."""
    failures: list[BaseException] = []
    with store.transaction() as connection:
        connection.execute("CREATE TABLE mine (x)")

        def write() -> None:
            try:
                for number in range(200):
                    connection.execute("INSERT INTO mine VALUES (?)", (number,))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (800,)
