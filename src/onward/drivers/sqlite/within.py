"""Jobs on a caller's SQLite connection: part of its transaction, and untouched by its settings."""

from __future__ import annotations

import sqlite3
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from onward.clock import Clock
from onward.drivers.borrowed import commits_by_itself, ended_inside, leads_elsewhere
from onward.drivers.sql.joined import Link, bridges_over
from onward.drivers.sql.statements import Many, Operation, Row, Statement
from onward.drivers.sqlite.transaction import GuardedConnection
from onward.drivers.sqlite.vendor_errors import is_busy, is_refusal, translate
from onward.errors import DurabilityWarning, NoTransaction, OnwardError, SchemaOutOfDate, StoreError, WeakDurability

T = TypeVar("T")
FULL = 2
_has_warned = False


class Joined(Struct, frozen=True):
    """What a link needs of the store."""

    statements: Mapping[str, str]
    clock: Clock
    path: str
    strict: bool
    open: Callable[[], None] = lambda: None
    """Makes the tables if there are none yet; called while the caller is in no transaction, whose lock it would need."""


class _SQLiteLink(Link):
    """What both colours have in common."""

    advice = "execute BEGIN IMMEDIATE first"
    joined: Joined

    def check(self) -> None:
        if isinstance(self.connection, GuardedConnection):
            with self.connection.gate:
                self.connection.check()
        if _is_begun(self.connection):
            return
        # autocommit (3.12 and newer): -1 means that isolation_level decides.
        autocommit = getattr(self.connection, "autocommit", -1)
        if autocommit is True or (autocommit == -1 and self.connection.isolation_level is None):
            raise commits_by_itself(self.how_to_begin)
        self.joined.open()

    def opening(self) -> Operation[None]:
        return self._as_text(check_durability(self.joined))

    def whole(self, make: Callable[[datetime], Operation[T]], held: bool = False) -> Operation[T]:
        """The write lock is taken before anything is read."""
        return self._as_text(self._in_savepoint(make(self.joined.clock.now()), held))

    def hold(self) -> Operation[bool]:
        yield Statement("hold")
        return True

    def reading(self, operation: Operation[T]) -> Operation[T]:
        return self._as_text(self._here(operation))

    def _in_savepoint(self, operation: Operation[T], held: bool) -> Operation[T]:
        if held:
            yield from self._let_go()
        is_begun = self.connection.in_transaction
        if not is_begun:
            yield Statement("begin")
        yield Statement("savepoint")
        try:
            yield Statement("lock")
            result = yield from self._here(operation)
        except GeneratorExit:
            raise
        except BaseException:
            if self.connection.in_transaction:  # else a full disk has rolled everything back
                yield Statement("undo_savepoint")
                yield Statement("release_savepoint")
                if not is_begun:  # the caller knows of no transaction, and would keep the only write lock
                    yield Statement("rollback")
            raise
        yield Statement("release_savepoint")
        return result

    def _let_go(self) -> Operation[None]:
        try:
            yield Statement("let_go")
        except sqlite3.OperationalError as error:
            if is_busy(error):  # by a statement of the caller's that is not done yet, so it is there
                raise
            raise ended_inside() from error

    def _here(self, operation: Operation[T]) -> Operation[T]:
        """Run an operation on the store's own tables, and on no others of the same names."""
        files = yield Statement("files")
        if len(files) > 1 or not is_same_file(files[0][2], self.joined.path):
            found = yield Statement("place")
            if found and not is_same_file(found[0][0], self.joined.path):
                raise leads_elsewhere(found[0][0] or "tables that end with it", self.joined.path)
        return (yield from operation)

    def _as_text(self, operation: Operation[T]) -> Operation[T]:
        """Run an operation while text comes as ``str``, whatever the caller wants of its own."""
        factory = self.connection.text_factory
        self.connection.text_factory = str
        try:
            return (yield from operation)
        finally:
            self.connection.text_factory = factory

    def explain(self, error: Exception) -> Exception:
        # aiosqlite says ValueError when it is closed.
        return explain(error, self.joined) if isinstance(error, sqlite3.Error | OverflowError | ValueError) else error


class SQLiteLink(_SQLiteLink):
    """On a ``sqlite3.Connection``."""

    colour = "sync"

    def execute(self, wanted: Statement | Many) -> list[Row]:
        cursor = own_cursor(self.connection)
        if isinstance(wanted, Many):
            cursor.executemany(self.joined.statements[wanted.name], wanted.parameters)
        else:
            cursor.execute(self.joined.statements[wanted.name], wanted.parameters)
        return cursor.fetchall()


class AioSQLiteLink(_SQLiteLink):
    """On an ``aiosqlite.Connection``."""

    colour = "async"
    _unread: Any = None
    """The cursor of a statement that was cut short. While its rows are not read, no savepoint can be released."""

    async def execute(self, wanted: Statement | Many) -> list[Row]:
        if self._unread is not None:
            await self._unread.close()
        self._unread = cursor = await self.connection.cursor()
        cursor.row_factory = None
        if isinstance(wanted, Many):
            await cursor.executemany(self.joined.statements[wanted.name], wanted.parameters)
        else:
            await cursor.execute(self.joined.statements[wanted.name], wanted.parameters)
        rows = list(await cursor.fetchall())
        self._unread = None
        return rows


BRIDGES = bridges_over({"sqlite3.Connection": SQLiteLink, "aiosqlite.core.Connection": AioSQLiteLink})


def own_cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A plain cursor, whatever a subclass makes of ``cursor()``; on the store's own transaction the one that keeps its limit."""
    if isinstance(connection, GuardedConnection):
        cursor = connection.cursor()
    else:
        cursor = sqlite3.Connection.cursor(connection, sqlite3.Cursor)
    cursor.row_factory = None
    return cursor


def is_same_file(first: str, second: str) -> bool:
    """Say whether SQLite sees one database in both. A hard link is another one to it: it has a log of its own beside it."""
    if first == second:
        return True
    one, other = Path(first).resolve(), Path(second).resolve()
    if one == other:
        return True
    try:
        return one.name == other.name and one.parent.samefile(other.parent)
    except OSError:
        return False


def _is_begun(connection: Any) -> bool:
    try:
        is_begun: bool = connection.in_transaction
        if not is_begun:
            _ = connection.isolation_level  # can fail where in_transaction does not
    except (sqlite3.Error, ValueError) as error:
        raise NoTransaction(f"the connection given as within= is in no transaction: {error}") from error
    return is_begun


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
        warnings.warn(text, DurabilityWarning, stacklevel=_levels_to_caller())


def _levels_to_caller() -> int:
    """How far up the stack the application's own code is; the two colours take different ways."""
    levels, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("onward."):
        levels, frame = levels + 1, frame.f_back
    return levels


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
