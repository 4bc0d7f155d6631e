"""The store's own write transaction, given to an application: only one thing at a time, for a limited time, and not to be ended inside."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from onward.clock import Clock
from onward.drivers.sqlite.commit import commit
from onward.drivers.sqlite.connection import close_quietly, connect, execute, forget, raw
from onward.drivers.sqlite.file import SQLiteFile
from onward.drivers.sqlite.vendor_errors import is_busy
from onward.durations import format_duration
from onward.errors import NoTransaction, TransactionOpen, TransactionTooLong

# ROLLBACK TO belongs to savepoints, which are the application's own affair.
_ENDS = re.compile(
    r"(?:[\s;\ufeff]|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*(?:COMMIT|END|BEGIN|ROLLBACK(?!\s+(?:TRANSACTION\s+)?TO\b))\b",
    re.IGNORECASE,
)

_BLOCK = "onward_block"
"""A savepoint around all that an application does: it is gone when the transaction is, also if another one was begun since."""


@contextmanager
def transaction(file: SQLiteFile, limit: timedelta | None, clock: Clock) -> Iterator[GuardedConnection]:
    """Hold the write lock; commit at the end, roll back on an exception or when ``limit`` is over."""
    file.refuse_inside()
    file.open()
    place = file.place()
    # Before anything is locked: where memory has run out, the start of a thread may never return.
    alarm = None if limit is None else Alarm()
    with cancelling(alarm), place as deadline:
        file.check_identity()
        connection = connect(file.path, deadline, GuardedConnection)
        assert isinstance(connection, GuardedConnection)
        try:
            execute(connection, "BEGIN IMMEDIATE", deadline, str(file.path))
            # On a file that may only be read, SQLite begins a transaction that can write nothing, and holds no lock.
            execute(connection, f"DELETE FROM {file.prefix}limits WHERE 0", deadline, str(file.path))
            raw(connection, f"SAVEPOINT {_BLOCK}")
            file.inside.add(threading.get_ident())
            if alarm is not None and limit is not None:
                connection.limit_to(limit, clock, place.let_go, alarm)
            yield connection
            connection.finish(file)
        except sqlite3.Error as error:
            if connection.is_over:
                raise connection.too_long() from error
            raise
        finally:
            if connection.is_ours:
                file.inside.discard(threading.get_ident())
                connection.give_up()
                close_quietly(connection)
            else:
                forget(connection)


class Alarm:
    """Calls a function when a time is over. Its thread is there once it is made, so that setting it takes nothing that could be missing."""

    def __init__(self) -> None:
        self._is_set = threading.Event()
        self._is_cancelled = threading.Event()
        self._seconds = 0.0
        self._call: Callable[[], object] = lambda: None
        threading.Thread(target=self._watch, name="onward-alarm", daemon=True).start()

    def set(self, seconds: float, call: Callable[[], object]) -> None:
        """Call after so many seconds, unless it is cancelled."""
        self._seconds, self._call = max(seconds, 0.0), call
        self._is_set.set()

    def cancel(self) -> None:
        self._is_cancelled.set()
        self._is_set.set()

    def _watch(self) -> None:
        self._is_set.wait()
        if not self._is_cancelled.wait(self._seconds):
            self._call()


@contextmanager
def cancelling(alarm: Alarm | None) -> Iterator[None]:
    """Let the alarm go at the end of the block."""
    try:
        yield
    finally:
        if alarm is not None:
            alarm.cancel()


class GuardedConnection(sqlite3.Connection):
    """A connection whose every use waits for the one before, and raises once its time is over."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.gate = threading.RLock()
        self.is_over = False
        self._is_done = False
        self._pid = os.getpid()
        self._limit: timedelta | None = None
        self._let_go: Callable[[], None] = lambda: None
        self._clock: Clock | None = None
        self._deadline = 0.0

    # -- what an application uses ------------------------------------------------------------------------------------

    def cursor(self, factory: type[sqlite3.Cursor] | None = None) -> sqlite3.Cursor:  # type: ignore[override]
        return super().cursor(_GuardedCursor)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self.cursor().executemany(sql, parameters)

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        raise self._not_here("executescript commits first")

    @property
    def in_transaction(self) -> bool:
        if self.is_over:
            raise self.too_long()
        return self._has_begun()

    def commit(self) -> None:
        raise self._not_here("commit() is not yours to call")

    def rollback(self) -> None:
        raise self._not_here("rollback() is not yours to call")

    def close(self) -> None:
        raise self._not_here("close() is not yours to call")

    def __enter__(self) -> Any:
        raise self._not_here("'with connection' would commit")

    def _not_here(self, what: str) -> TransactionOpen:
        return TransactionOpen(f"{what}: the transaction is Onward's; leave its 'with' block to commit, raise an exception to roll back")

    def _ended_inside(self) -> TransactionOpen:
        return self._not_here(
            "the transaction was ended inside its block, so what was written before that may be stored, and nothing behind it is"
        )

    @property
    def isolation_level(self) -> Any:
        return super().isolation_level

    @isolation_level.setter
    def isolation_level(self, level: object) -> None:
        raise TransactionOpen("isolation_level is not yours to change inside the 'with' block: setting it would commit")

    # -- what the store uses -----------------------------------------------------------------------------------------

    def limit_to(self, limit: timedelta, clock: Clock, let_go: Callable[[], None], alarm: Alarm) -> None:
        """Roll back when ``limit`` is over, from the alarm's thread, and let others in; the next use looks at the clock, too."""
        self._limit = limit
        self._let_go = let_go
        self._clock, self._deadline = clock, clock.monotonic() + limit.total_seconds()
        alarm.set(limit.total_seconds(), self._end_of_time)

    def _end_of_time(self) -> None:
        if self._is_done:
            return
        self.is_over = True
        # A statement may start just after an interrupt, so keep on until the gate is free.
        while not self.gate.acquire(timeout=0.005):
            if self._is_done:
                return
            self.interrupt()
        try:
            if not self._is_done:
                self.give_up()
                self._let_go()
        finally:
            self.gate.release()

    def check(self) -> None:
        """Raise once the time is over, or the transaction was ended by whatever way. Called with the gate held."""
        if not self.is_ours:
            raise NoTransaction("this process was forked inside the transaction, which belongs to its parent")
        if self._clock is not None and not self.is_over and self._clock.monotonic() >= self._deadline:
            self.is_over = True
            self.give_up()
            self._let_go()
        if self.is_over:
            raise self.too_long()
        if not self._is_done and not self._has_begun():
            raise self._ended_inside()

    @property
    def is_ours(self) -> bool:
        """False in a child that was forked inside the transaction: there nothing may touch the connection."""
        return self._pid == os.getpid()

    def too_long(self) -> TransactionTooLong:
        took = "" if self._limit is None else f" of {format_duration(self._limit)}"
        return TransactionTooLong(
            f"the transaction held the only write lock for longer than its limit{took} and was rolled back: do slow work before it"
        )

    def _has_begun(self) -> bool:
        return bool(sqlite3.Connection.in_transaction.__get__(self))

    def finish(self, file: SQLiteFile) -> None:
        """Commit."""
        with self.gate:
            self.check()
            try:
                raw(self, f"RELEASE {_BLOCK}")
            except sqlite3.OperationalError as error:
                if not is_busy(error):  # by a statement that is not done yet; the commit says so
                    raise self._ended_inside() from error
            self._is_done = True  # from here on the watch leaves the connection alone
            commit(self, tuple, time.monotonic() + file.timeout, str(file.path))

    def give_up(self) -> None:
        """Roll back what has not been committed."""
        with self.gate:
            self._is_done = True
            try:
                if self._has_begun():
                    raw(self, "ROLLBACK")
            except sqlite3.Error:
                return


class _GuardedCursor(sqlite3.Cursor):
    """Takes the connection's gate around every step."""

    connection: GuardedConnection

    def execute(self, sql: str, parameters: Any = (), /) -> _GuardedCursor:
        if _ENDS.match(sql):
            raise self.connection._not_here(f"{sql.strip()[:40]!r} is not yours to run")
        with _Gate(self.connection):
            super().execute(sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> _GuardedCursor:
        with _Gate(self.connection):
            super().executemany(sql, parameters)
        return self

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        return self.connection.executescript(sql_script)

    def fetchone(self) -> Any:
        with _Gate(self.connection):
            return super().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Any]:
        with _Gate(self.connection):
            return super().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Any]:
        with _Gate(self.connection):
            return super().fetchall()

    def __next__(self) -> Any:
        with _Gate(self.connection):
            return super().__next__()


class _Gate:
    """One use of the connection. An interrupt by the watch is told as what it is."""

    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.gate.acquire()
        try:
            self._connection.check()
        except BaseException:
            self._connection.gate.release()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._connection.gate.release()
        if isinstance(error, sqlite3.Error) and self._connection.is_over:
            raise self._connection.too_long() from error
