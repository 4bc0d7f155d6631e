"""Jobs on a caller's own connection: part of its transaction, whatever its settings."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite import within as within_module
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import (
    DuplicateJob,
    DurabilityWarning,
    JobNotFound,
    LeaseLost,
    NoTransaction,
    SchemaOutOfDate,
    StoreBusy,
    StoreError,
    WeakDurability,
)
from onward.inspection import JobFilter
from onward.outcome import Completed, DeadLettered
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import Demand, Settlement

DEMAND = Demand(lease_owner="host:1:one", slots=10, types={"work": timedelta(seconds=60)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "app.db", clock=FakeClock(), timeout=timedelta(milliseconds=200))
    store.open()
    yield store
    store.close()


@pytest.fixture
def open_connection(store: SQLiteStore) -> Iterator[Callable[..., sqlite3.Connection]]:
    opened: list[sqlite3.Connection] = []

    def connect(**options: Any) -> sqlite3.Connection:
        opened.append(sqlite3.connect(store.path, timeout=0.2, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def test_a_job_commits_with_the_callers_data(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """Python's own transaction handling begins nothing for a SELECT; ours begins before the first of them."""
    connection = open_connection()
    (accepted,) = store.within(connection).enqueue([make_new_job()])
    assert connection.in_transaction
    assert store.count(JobFilter()) == 0
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    assert store.get(accepted.id).status is Status.QUEUED


def test_a_rollback_leaves_no_trace(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """What was never committed was never accepted; the key is free."""
    connection = open_connection()
    store.within(connection).enqueue([make_new_job(key="k")])
    connection.rollback()
    assert store.count(JobFilter()) == 0
    assert store.enqueue([make_new_job(key="k")])[0].is_new


def test_the_callers_settings_change_nothing_and_stay(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """Row factories, text factories and converters belong to the application."""
    connection = open_connection(isolation_level="DEFERRED", detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes
    asked = make_new_job(key="k", expires=timedelta(days=1))
    within = store.within(connection)
    within.enqueue([asked])
    assert within.get(asked.id).type == "work"
    assert within.cancel(asked.id).status is Status.CANCELLED
    assert within.retry(asked.id).status is Status.QUEUED
    assert connection.text_factory is bytes
    assert connection.row_factory is sqlite3.Row
    assert isinstance(connection.execute("SELECT 1 AS one").fetchone(), sqlite3.Row)


def test_converters_of_the_application_leave_our_columns_alone(
    store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]
) -> None:
    """With PARSE_DECLTYPES an application may have its own idea of what a TEXT or an INTEGER is, and a cursor of its own."""
    before = dict(sqlite3.converters)
    sqlite3.register_converter("TEXT", lambda stored: b"converted " + stored)
    sqlite3.register_converter("INTEGER", lambda stored: None)
    try:
        connection = open_connection(detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES, factory=Stubborn)
        sqlite3.Connection.cursor(connection, sqlite3.Cursor).execute("BEGIN IMMEDIATE")
        within = store.within(connection)
        asked = make_new_job(key="k")
        assert within.enqueue([asked])[0].is_new
        assert [within.enqueue([one])[0].id for one in (asked, make_new_job(key="k"))] == [asked.id, asked.id]
        assert within.get(asked.id).status is Status.QUEUED
        within.cancel(asked.id)
        assert within.retry(asked.id).status is Status.QUEUED
        connection.commit()
        (claim,) = store.turn(demand=DEMAND).claims
        sqlite3.Connection.cursor(connection, sqlite3.Cursor).execute("BEGIN IMMEDIATE")
        store.within(connection).confirm(claim)
        store.within(connection).settle(Settlement(claim=claim, outcome=DeadLettered("no")))
        connection.commit()
    finally:
        sqlite3.converters.clear()
        sqlite3.converters.update(before)
    assert store.get(asked.id).status is Status.DEAD_LETTER


class Stubborn(sqlite3.Connection):
    """A connection that gives cursors of its own, whichever it is asked for."""

    def cursor(self, factory: object = None) -> sqlite3.Cursor:  # type: ignore[override]
        raise RuntimeError("our own cursors only")


def test_an_autocommit_connection_outside_a_transaction_is_refused(
    store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]
) -> None:
    """It would commit the job at once, whatever became of the caller's data."""
    connection = open_connection(isolation_level=None)
    with pytest.raises(NoTransaction, match="BEGIN IMMEDIATE"):
        store.within(connection)
    connection.execute("BEGIN")
    store.within(connection).enqueue([make_new_job()])
    connection.execute("COMMIT")
    assert store.count(JobFilter()) == 1


def test_a_transaction_that_ended_carries_no_more_jobs(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """On an autocommit connection the next job would commit by itself."""
    connection = open_connection(isolation_level=None)
    connection.execute("BEGIN")
    within = store.within(connection)
    connection.execute("COMMIT")
    with pytest.raises(NoTransaction):
        within.enqueue([make_new_job()])
    assert store.count(JobFilter()) == 0


def test_a_refused_job_is_undone_alone(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """The caller may catch the refusal and commit the rest; no key of the refused request stays taken."""
    store.enqueue([make_new_job(key="held")])
    connection = open_connection()
    within = store.within(connection)
    within.enqueue([make_new_job(key="before")])
    with pytest.raises(DuplicateJob):
        within.enqueue([make_new_job(key="a"), make_new_job(key="held", on_duplicate="raise")])
    connection.commit()
    assert store.count(JobFilter()) == 2
    assert store.enqueue([make_new_job(key="a")])[0].is_new


def test_a_snapshot_that_is_too_old_says_begin_immediate(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """SQLite fails such a write at once, whatever the busy timeout; "database is locked" would send people the wrong way."""
    connection = open_connection(isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM onward_jobs").fetchone()
    store.enqueue([make_new_job()])
    with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
        store.within(connection).enqueue([make_new_job()])
    connection.execute("ROLLBACK")
    assert store.count(JobFilter()) == 1


def test_another_writer_is_waited_for_by_the_callers_timeout(
    store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]
) -> None:
    """The store's own verbs wait by the store's, and both say what happened."""
    other, connection = open_connection(isolation_level=None), open_connection()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="nothing was stored"):
        store.within(connection).enqueue([make_new_job()])
    with pytest.raises(StoreBusy, match="nothing was stored"):
        store.enqueue([make_new_job()])
    other.execute("ROLLBACK")
    store.enqueue([make_new_job()])


def test_weak_durability_warns_once_and_is_refused_when_strict(
    store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may lose what such a connection commits; one line is enough to know it."""
    monkeypatch.setattr(within_module, "_has_warned", False)
    connection = open_connection()
    connection.execute("PRAGMA synchronous = NORMAL")
    with pytest.warns(DurabilityWarning, match="synchronous") as told:
        store.within(connection)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.within(connection).enqueue([make_new_job()])
    connection.commit()
    strict = SQLiteStore(store.path, clock=FakeClock(), strict=True)
    with pytest.raises(WeakDurability, match="FULL"):
        strict.within(connection)
    assert store.count(JobFilter()) == 1


def test_the_warning_points_at_the_application_on_awaited_connections_too(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of Onward's own would not say which connection it is."""
    monkeypatch.setattr(within_module, "_has_warned", False)

    async def story() -> None:
        async with aiosqlite.connect(store.path) as connection:
            await connection.execute("PRAGMA synchronous = NORMAL")
            with pytest.warns(DurabilityWarning, match="synchronous") as told:
                await store.within_async(connection).enqueue([make_new_job()])
            assert told[0].filename == __file__

    asyncio.run(story())


def test_a_database_without_our_tables_is_named(store: SQLiteStore, tmp_path: Path) -> None:
    """A job in another file would never run. The caller's transaction goes on, and none is begun where there was none."""
    connection = sqlite3.connect(tmp_path / "other.db")
    for is_begun in (False, True):
        if is_begun:
            connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(SchemaOutOfDate, match=r"app\.db"):
            store.within(connection).enqueue([make_new_job()])
        assert connection.in_transaction is is_begun
    connection.close()


def test_a_new_file_in_the_middle_of_a_transaction_says_to_open_the_store_first(tmp_path: Path) -> None:
    """Its tables cannot be made there: the caller holds the lock that making them needs. So the error names what to call."""
    fresh = SQLiteStore(tmp_path / "fresh.db", clock=FakeClock())
    connection = sqlite3.connect(fresh.path)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(SchemaOutOfDate, match=r"app\.store\.open\(\), or run onward migrate"):
        fresh.within(connection).enqueue([make_new_job()])
    assert connection.in_transaction
    connection.rollback()
    fresh.open()
    connection.execute("BEGIN IMMEDIATE")
    fresh.within(connection).enqueue([make_new_job()])
    connection.commit()
    assert fresh.count(JobFilter()) == 1
    connection.close()
    fresh.close()


def test_an_unknown_connection_lists_what_is_known(store: SQLiteStore) -> None:
    """Whoever passes an ORM session must learn what to pass instead."""
    with pytest.raises(NoTransaction, match="aiosqlite, django, sqlalchemy, sqlite3"):
        store.within(object())


def test_a_closed_connection_is_refused(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """Its error belongs to sqlite3 and must not leave the driver."""
    connection = open_connection()
    connection.close()
    with pytest.raises(NoTransaction, match="closed"):
        store.within(connection)


def test_confirm_and_settle_hold_the_fence(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """A worker that lost its lease can neither write its effect nor complete the job."""
    store.enqueue([make_new_job()])
    (claim,) = store.turn(demand=DEMAND).claims
    connection = open_connection()
    within = store.within(connection)
    within.confirm(claim)
    within.settle(Settlement(claim=claim, outcome=Completed("1")))
    assert within.get(claim.id).status is Status.COMPLETED
    with pytest.raises(LeaseLost):
        within.confirm(claim)
    connection.rollback()
    store.recover("host:1:one", {claim.id})
    with pytest.raises(LeaseLost):
        within.settle(Settlement(claim=claim, outcome=Completed()))
    connection.rollback()
    with pytest.raises(JobNotFound):
        within.get("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_an_awaited_connection_carries_jobs(store: SQLiteStore) -> None:
    """The same operations, awaited statement by statement."""

    async def story() -> None:
        async with aiosqlite.connect(store.path) as connection:
            connection.row_factory = aiosqlite.Row
            within = store.within_async(connection)
            asked = make_new_job(key="k")
            assert (await within.enqueue([asked, make_new_job()]))[0].is_new
            assert (await within.get(asked.id)).id == asked.id
            with pytest.raises(DuplicateJob):
                await within.enqueue([make_new_job(key="x"), make_new_job(key="k", on_duplicate="raise")])
            assert (await within.cancel(asked.id)).status is Status.CANCELLED
            assert (await within.retry(asked.id)).status is Status.QUEUED
            assert store.count(JobFilter()) == 0
            await connection.commit()
            assert store.count(JobFilter()) == 2
            await within.enqueue([make_new_job()])
            await connection.rollback()
            assert store.count(JobFilter()) == 2
            (claim, _) = store.turn(demand=DEMAND).claims
            await within.confirm(claim)
            await within.settle(Settlement(claim=claim, outcome=Completed()))
            await connection.commit()
            with pytest.raises(LeaseLost):
                await within.confirm(claim)
        with pytest.raises(NoTransaction):
            store.within_async(connection)
        async with aiosqlite.connect(store.path, isolation_level=None) as connection:
            with pytest.raises(NoTransaction, match="BEGIN IMMEDIATE"):
                store.within_async(connection)

    asyncio.run(story())


def test_the_wrong_colour_names_the_right_verb(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """A coroutine that nobody awaits would lose the job without a word."""
    with pytest.raises(NoTransaction, match=r"app\.enqueue"):
        store.within_async(open_connection())

    async def story() -> None:
        async with aiosqlite.connect(store.path) as connection:
            with pytest.raises(NoTransaction, match="aenqueue"):
                store.within(connection)

    asyncio.run(story())


def test_another_threads_connection_is_a_clear_error(store: SQLiteStore, open_connection: Callable[..., sqlite3.Connection]) -> None:
    """sqlite3 forbids it, and its error must not leave the driver."""
    connection = open_connection()

    async def elsewhere() -> None:
        await asyncio.to_thread(store.within, connection)

    with pytest.raises(StoreError, match="thread"):
        asyncio.run(elsewhere())


def test_no_library_is_imported_for_a_bridge(tmp_path: Path) -> None:
    """An application without aiosqlite must not need it, nor pay for it."""
    code = (
        "import sys, sqlite3; from onward.clock import SystemClock; from onward.drivers import connect\n"
        f"store = connect('sqlite:///{tmp_path}/app.db', clock=SystemClock()); store.open()\n"
        f"store.within(sqlite3.connect('{tmp_path}/app.db'))\n"
        "print('aiosqlite' in sys.modules, 'asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]
