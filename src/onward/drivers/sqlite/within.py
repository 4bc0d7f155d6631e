"""Jobs on a caller's ``sqlite3`` or ``aiosqlite`` connection: part of its transaction, and untouched by its settings."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from onward.clock import Clock
from onward.driver import AsyncWithin, Within
from onward.drivers.borrowed import Bridge
from onward.drivers.sql import people
from onward.drivers.sql.enqueue import enqueue
from onward.drivers.sql.statements import Operation, Statement, run, run_async
from onward.drivers.sqlite.transaction import GuardedConnection
from onward.drivers.sqlite.vendor_errors import is_refusal, translate
from onward.errors import DurabilityWarning, NoTransaction, OnwardError, SchemaOutOfDate, StoreError, WeakDurability
from onward.jobs import Accepted, Job, NewJob
from onward.turn import Claim, Settlement

T = TypeVar("T")
FULL = 2
_has_warned = False


class Joined(Struct, frozen=True):
    """What both colours need of the store."""

    statements: Mapping[str, str]
    clock: Clock
    path: str
    strict: bool


class SQLiteWithin(Within):
    """``Within`` on a ``sqlite3.Connection``."""

    def __init__(self, connection: sqlite3.Connection, joined: Joined) -> None:
        self._connection = connection
        self._joined = joined
        check_transaction(connection)
        self._run(check_durability(joined))

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        return self._write(enqueue(jobs, self._joined.clock.now()))

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._run(people.get(job_id, owner))

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write(people.cancel(job_id, owner, self._joined.clock.now()))

    def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write(people.retry(job_id, owner, self._joined.clock.now()))

    def confirm(self, claim: Claim) -> None:
        self._write(people.confirm(claim, self._joined.clock.now()))

    def settle(self, settlement: Settlement) -> None:
        self._write(people.settle_one(settlement, self._joined.clock.now()))

    def _write(self, operation: Operation[T]) -> T:
        return self._run(in_savepoint(self._connection, operation))

    def _run(self, operation: Operation[T]) -> T:
        try:
            cursor = own_cursor(self._connection)
            return run(cursor, self._joined.statements, as_text(self._connection, operation))
        except ERRORS as error:
            raise explain(error, self._joined) from error


class AioSQLiteWithin(AsyncWithin):
    """``AsyncWithin`` on an ``aiosqlite.Connection``."""

    def __init__(self, connection: Any, joined: Joined) -> None:
        self._connection = connection
        self._joined = joined
        check_transaction(connection)
        self._is_checked = False

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        return await self._write(enqueue(jobs, self._joined.clock.now()))

    async def get(self, job_id: str, *, owner: str | None = None) -> Job:
        return await self._run(people.get(job_id, owner))

    async def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return await self._write(people.cancel(job_id, owner, self._joined.clock.now()))

    async def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return await self._write(people.retry(job_id, owner, self._joined.clock.now()))

    async def confirm(self, claim: Claim) -> None:
        await self._write(people.confirm(claim, self._joined.clock.now()))

    async def settle(self, settlement: Settlement) -> None:
        await self._write(people.settle_one(settlement, self._joined.clock.now()))

    async def _write(self, operation: Operation[T]) -> T:
        return await self._run(in_savepoint(self._connection, operation))

    async def _run(self, operation: Operation[T]) -> T:
        try:
            cursor = await self._connection.cursor()
            cursor.row_factory = None
            if not self._is_checked:
                await run_async(cursor, self._joined.statements, check_durability(self._joined))
                self._is_checked = True
            return await run_async(cursor, self._joined.statements, as_text(self._connection, operation))
        except ERRORS as error:
            raise explain(error, self._joined) from error


BRIDGES = {
    "sqlite3.Connection": Bridge("sync", SQLiteWithin),
    "aiosqlite.core.Connection": Bridge("async", AioSQLiteWithin),
}


ERRORS = (sqlite3.Error, UnicodeEncodeError, OverflowError, ValueError)
"""What a connection may raise: aiosqlite says ValueError when it is closed."""


def own_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A plain cursor, whatever a subclass makes of ``cursor()``; on the store's own transaction the one that keeps its limit."""
    if isinstance(connection, GuardedConnection):
        cursor = connection.cursor()
    else:
        cursor = sqlite3.Connection.cursor(connection, sqlite3.Cursor)
    cursor.row_factory = None
    return cursor


def in_savepoint(connection: Any, operation: Operation[T]) -> Operation[T]:
    """Run an operation whole or not at all inside the caller's transaction; the write lock is taken before anything is read."""
    if not connection.in_transaction:
        check_transaction(connection)
        yield Statement("begin")
    yield Statement("savepoint")
    try:
        yield Statement("lock")
        result = yield from operation
    except GeneratorExit:
        raise
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled everything back
            yield Statement("undo_savepoint")
            yield Statement("release_savepoint")
        raise
    yield Statement("release_savepoint")
    return result


def as_text(connection: Any, operation: Operation[T]) -> Operation[T]:
    """Run an operation while text comes as ``str``, whatever the caller wants of its own."""
    factory = connection.text_factory
    connection.text_factory = str
    try:
        return (yield from operation)
    finally:
        connection.text_factory = factory


def check_transaction(connection: Any) -> None:
    """Raise ``NoTransaction`` for a connection that is in no transaction and will not be in one by the next statement."""
    try:
        if connection.in_transaction:
            return
        # autocommit (3.12 and newer): -1 means that isolation_level decides. Reading it can fail where in_transaction does not.
        autocommit = getattr(connection, "autocommit", -1)
    except (sqlite3.Error, ValueError) as error:
        raise NoTransaction(f"the connection given as within= is in no transaction: {error}") from error
    if autocommit is True or (autocommit == -1 and connection.isolation_level is None):
        raise NoTransaction(
            "the connection given as within= commits every statement by itself, so the job could not join a transaction: "
            "execute BEGIN IMMEDIATE first"
        )


def check_durability(joined: Joined) -> Operation[None]:
    """Warn once, or refuse in strict mode, when the caller's commits may be lost at a power cut."""
    global _has_warned
    if (yield Statement("synchronous"))[0][0] >= FULL:
        return
    text = (
        "the connection given as within= has PRAGMA synchronous below FULL, so a power cut may lose jobs that were accepted on it: "
        "set PRAGMA synchronous = FULL when it is opened"
    )
    if joined.strict:
        raise WeakDurability(text)
    if not _has_warned:
        _has_warned = True
        warnings.warn(text, DurabilityWarning, stacklevel=8)


def explain(error: BaseException, joined: Joined) -> OnwardError:
    """As ``translate``, for errors on a connection that the store does not know."""
    text = str(error)
    if "no such table" in text:
        return SchemaOutOfDate(
            f"the connection given as within= sees no tables of Onward ({text}): call app.store.open(), or run onward migrate, before its "
            f"transaction begins; if that was done, it is a connection to another file than the store's, which is {joined.path}"
        )
    if is_refusal(error):
        return translate(error, joined.path)
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError | ValueError) and not isinstance(error, UnicodeEncodeError):
        return StoreError(f"the connection given as within= cannot be used: {text}")
    return translate(error, joined.path)
