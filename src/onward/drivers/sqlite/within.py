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
from onward.drivers.sql.statements import Many, Operation, Row, run
from onward.drivers.sqlite.vendor_errors import translate
from onward.errors import DurabilityWarning, NoTransaction, OnwardError, SchemaOutOfDate, StoreError, WeakDurability
from onward.jobs import Accepted, Job, NewJob
from onward.turn import Claim, Settlement

T = TypeVar("T")
FULL = 2
BEGIN, SAVE, RELEASE, UNDO = "BEGIN IMMEDIATE", "SAVEPOINT onward", "RELEASE onward", "ROLLBACK TO onward"
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
        cursor = self._cursor()
        try:
            check_durability(cursor.execute("PRAGMA synchronous").fetchone()[0], joined)
        except sqlite3.Error as error:
            raise explain(error, joined) from error

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        return self._write(enqueue(jobs, self._joined.clock.now()))

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        try:
            return self._as_text(people.get(job_id, owner))
        except sqlite3.Error as error:
            raise explain(error, self._joined) from error

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write(people.cancel(job_id, owner, self._joined.clock.now()))

    def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._write(people.retry(job_id, owner, self._joined.clock.now()))

    def confirm(self, claim: Claim) -> None:
        self._write(people.confirm(claim, self._joined.clock.now()))

    def settle(self, settlement: Settlement) -> None:
        self._write(people.settle_one(settlement, self._joined.clock.now()))

    def _write(self, operation: Operation[T]) -> T:
        """Run an operation whole or not at all, in a savepoint; the write lock is taken before anything is read."""
        cursor = self._cursor()
        try:
            if not self._connection.in_transaction:
                check_transaction(self._connection)
                cursor.execute(BEGIN)
            cursor.execute(SAVE)
            try:
                cursor.execute(self._joined.statements["lock"])
                result = self._as_text(operation)
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled everything back
                    cursor.execute(UNDO)
                    cursor.execute(RELEASE)
                raise
            cursor.execute(RELEASE)
            return result
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise explain(error, self._joined) from error

    def _as_text(self, operation: Operation[T]) -> T:
        factory = self._connection.text_factory
        self._connection.text_factory = str
        try:
            return run(self._cursor(), self._joined.statements, operation)
        finally:
            self._connection.text_factory = factory

    def _cursor(self) -> sqlite3.Cursor:
        try:
            cursor = self._connection.cursor(sqlite3.Cursor)
        except sqlite3.Error as error:
            raise explain(error, self._joined) from error
        cursor.row_factory = None
        return cursor


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
        cursor = await self._cursor()
        try:
            return await self._as_text(cursor, people.get(job_id, owner))
        except sqlite3.Error as error:
            raise explain(error, self._joined) from error

    async def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return await self._write(people.cancel(job_id, owner, self._joined.clock.now()))

    async def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return await self._write(people.retry(job_id, owner, self._joined.clock.now()))

    async def confirm(self, claim: Claim) -> None:
        await self._write(people.confirm(claim, self._joined.clock.now()))

    async def settle(self, settlement: Settlement) -> None:
        await self._write(people.settle_one(settlement, self._joined.clock.now()))

    async def _write(self, operation: Operation[T]) -> T:
        cursor = await self._cursor()
        try:
            if not self._connection.in_transaction:
                check_transaction(self._connection)
                await cursor.execute(BEGIN)
            await cursor.execute(SAVE)
            try:
                await cursor.execute(self._joined.statements["lock"])
                result = await self._as_text(cursor, operation)
            except BaseException:
                if self._connection.in_transaction:
                    await cursor.execute(UNDO)
                    await cursor.execute(RELEASE)
                raise
            await cursor.execute(RELEASE)
            return result
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise explain(error, self._joined) from error

    async def _as_text(self, cursor: Any, operation: Operation[T]) -> T:
        factory = self._connection.text_factory
        self._connection.text_factory = str
        try:
            return await self._run(cursor, operation)
        finally:
            self._connection.text_factory = factory

    async def _run(self, cursor: Any, operation: Operation[T]) -> T:
        rows: list[Row] = []
        try:
            wanted = next(operation)
            while True:
                sql = self._joined.statements[wanted.name]
                if isinstance(wanted, Many):
                    await cursor.executemany(sql, wanted.parameters)
                    rows = []
                else:
                    await cursor.execute(sql, wanted.parameters)
                    rows = list(await cursor.fetchall())
                wanted = operation.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _cursor(self) -> Any:
        try:
            cursor = await self._connection.cursor()
            cursor.row_factory = None
            if not self._is_checked:
                row = await (await cursor.execute("PRAGMA synchronous")).fetchone()
                check_durability(row[0], self._joined)
                self._is_checked = True
        except (ValueError, sqlite3.Error) as error:
            raise explain(error, self._joined) from error
        return cursor


BRIDGES = {
    "sqlite3.Connection": Bridge("sync", SQLiteWithin),
    "aiosqlite.core.Connection": Bridge("async", AioSQLiteWithin),
}


def check_transaction(connection: Any) -> None:
    """Raise ``NoTransaction`` for a connection that is in no transaction and will not be in one by the next statement."""
    try:
        if connection.in_transaction:
            return
    except (sqlite3.Error, ValueError) as error:
        raise NoTransaction(f"the connection given as within= is in no transaction: {error}") from error
    # autocommit (3.12 and newer): -1 means that isolation_level decides.
    autocommit = getattr(connection, "autocommit", -1)
    if autocommit is True or (autocommit == -1 and connection.isolation_level is None):
        raise NoTransaction(
            "the connection given as within= commits every statement by itself, so the job could not join a transaction: "
            "execute BEGIN IMMEDIATE first"
        )


def check_durability(synchronous: int, joined: Joined) -> None:
    """Warn once, or refuse in strict mode, when the caller's commits may be lost at a power cut."""
    global _has_warned
    if synchronous >= FULL:
        return
    text = (
        "the connection given as within= has PRAGMA synchronous below FULL, so a power cut may lose jobs that were accepted on it: "
        "set PRAGMA synchronous = FULL when it is opened"
    )
    if joined.strict:
        raise WeakDurability(text)
    if not _has_warned:
        _has_warned = True
        warnings.warn(text, DurabilityWarning, stacklevel=5)


def explain(error: BaseException, joined: Joined) -> OnwardError:
    """As ``translate``, for errors on a connection that the store does not know."""
    text = str(error)
    if "no such table" in text:
        return SchemaOutOfDate(
            f"the connection given as within= has no tables of Onward ({text}): it must be to the same file as the store ({joined.path}), "
            "and the store must be opened once (app.store.open()) before its first transaction"
        )
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError | ValueError) and not isinstance(error, UnicodeEncodeError):
        return StoreError(f"the connection given as within= cannot be used: {text}")
    return translate(error, joined.path)
