"""The store's own transaction in an application's hands."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import DuplicateJob, LeaseLost, StoreBusy, StoreUnavailable, TransactionOpen, TransactionTooLong
from onward.inspection import JobFilter
from onward.testing.factories import make_new_job
from onward.turn import Claim

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
        lambda connection: connection.execute(";COMMIT"),
        lambda connection: connection.execute("/* x */ ; -- y\n ;END"),
        lambda connection: connection.execute("\ufeffCOMMIT"),
        lambda connection: setattr(connection, "isolation_level", None),
    ],
    ids=[
        *("commit", "rollback", "close", "with", "script", "script of a cursor", "COMMIT", "END", "ROLLBACK", "BEGIN"),
        *("behind nothing", "behind comments", "behind a mark", "isolation level"),
    ],
)
def test_it_cannot_be_ended_inside(store: SQLiteStore, end: Callable[[Any], Any]) -> None:
    """A commit in the middle would tear the job from its data, and nobody would notice."""
    with store.transaction() as connection:
        connection.execute("CREATE TABLE mine (x)")
        with pytest.raises(TransactionOpen, match="with"):
            end(connection)
        store.within(connection).enqueue([make_new_job()])
    assert store.count(JobFilter()) == 1


def in_base_cursor(connection: sqlite3.Connection, *statements: str) -> None:
    """As a library does that makes a cursor of its own."""
    for statement in statements:
        sqlite3.Cursor(connection).execute(statement)


ENDING: dict[str, Callable[[Any], Any]] = {
    "a cursor of sqlite3": lambda connection: in_base_cursor(connection, "COMMIT"),
    "a method of the class": lambda connection: sqlite3.Connection.commit(connection),
    "a rollback": lambda connection: sqlite3.Connection.rollback(connection),
    "a conflict": lambda connection: connection.execute("INSERT OR ROLLBACK INTO once VALUES (1)"),
}


@pytest.mark.parametrize("end", ENDING.values(), ids=ENDING)
def test_nothing_is_stored_behind_what_has_ended_it(store: SQLiteStore, end: Callable[[Any], Any]) -> None:
    """Outside of a transaction each further statement would commit by itself. Whoever swallows the error meets it again at the end."""
    with store.transaction() as connection:
        connection.execute("CREATE TABLE once (x UNIQUE)")
        connection.execute("INSERT INTO once VALUES (1)")
    with pytest.raises(TransactionOpen, match="was ended inside its block"), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        with suppress(sqlite3.IntegrityError):
            end(connection)
        for use in (
            lambda: connection.execute("INSERT INTO once VALUES (9)"),
            lambda: connection.executemany("INSERT INTO once VALUES (?)", [(9,)]),
            lambda: store.within(connection).enqueue([make_new_job()]),
        ):
            with pytest.raises(TransactionOpen, match="was ended inside its block"):
                use()
    with store.transaction() as connection:
        assert connection.execute("SELECT x FROM once").fetchall() == [(1,)]
    assert store.count(JobFilter()) == 0


@pytest.mark.parametrize("ended_by", ["COMMIT", "ROLLBACK"])
def test_another_transaction_in_its_place_is_never_committed_as_if_it_were_the_first(store: SQLiteStore, ended_by: str) -> None:
    """What was proved in the first one does not hold in the second."""
    with store.transaction() as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(TransactionOpen, match="was ended inside its block"), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("INSERT INTO mine VALUES (1)")
        in_base_cursor(connection, ended_by, "BEGIN IMMEDIATE")
        connection.execute("INSERT INTO mine VALUES (9)")
        store.within(connection).enqueue([make_new_job()])
    with store.transaction() as connection:
        assert (9,) not in connection.execute("SELECT x FROM mine").fetchall()
    assert store.count(JobFilter()) == 0
    assert store.enqueue([make_new_job()])[0].is_new


def test_a_full_disk_is_told_as_what_it_is(store: SQLiteStore) -> None:
    """SQLite rolls everything back then; that is no reason to blame the application."""
    with pytest.raises(StoreUnavailable, match="full"), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        store.within(connection).enqueue([make_new_job(payload="x" * 100_000)])
    assert store.enqueue([make_new_job()])[0].is_new


def test_a_statement_that_is_not_done_yet_is_not_taken_for_an_end(tmp_path: Path) -> None:
    """SQLite commits nothing while rows of a RETURNING wait to be read."""
    store = SQLiteStore(tmp_path / "app.db", clock=FakeClock(), timeout=timedelta(milliseconds=20))
    with pytest.raises(StoreBusy), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("CREATE TABLE mine (x)")
        unread = connection.execute("INSERT INTO mine VALUES (1), (2) RETURNING x")
    assert unread is not None
    store.close()


def test_savepoints_are_the_applications_own(store: SQLiteStore) -> None:
    """They undo a part, and end nothing."""
    with store.transaction() as connection:
        connection.execute("/* a hint */ SELECT CASE WHEN 1 THEN 1 /* no */ END")
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


@pytest.mark.parametrize("refused", ["a claim that is not held", "an id of somebody else's"])
def test_a_refusal_takes_no_lock_for_a_caller_without_a_transaction(tmp_path: Path, refused: str) -> None:
    """Python's own connections begin one by themselves; behind a refusal the caller knows of none, and would lock everybody out."""
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock(), timeout=timedelta(milliseconds=200))
    taken = make_new_job()
    store.enqueue([taken])
    connection = sqlite3.connect(tmp_path / "jobs.db")
    within = store.within(connection)
    if refused == "a claim that is not held":
        with pytest.raises(LeaseLost):
            within.confirm(Claim(store.get(taken.id), timedelta(seconds=60)))
    else:
        with pytest.raises(DuplicateJob):
            within.enqueue([make_new_job(id=taken.id, payload=2)])
    assert not connection.in_transaction
    assert store.enqueue([make_new_job()])[0].is_new
    within.enqueue([make_new_job()])
    assert connection.in_transaction  # and what is accepted waits for the caller's commit, as ever
    connection.rollback()
    connection.close()
    store.close()
