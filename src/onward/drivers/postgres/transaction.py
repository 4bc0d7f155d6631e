"""The store's own transaction, given to an application: for a limited time, and not to be ended inside."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import pq, sql

from onward.clock import Clock
from onward.drivers.postgres.connections import StoreConnection
from onward.drivers.postgres.deadlines import shut_down
from onward.durations import format_duration
from onward.errors import NoTransaction, TransactionOpen, TransactionTooLong

# ROLLBACK TO and RELEASE belong to savepoints, which are the application's own affair.
_ENDS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*(?:COMMIT|END|BEGIN|START\s+TRANSACTION|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b))\b",
    re.IGNORECASE,
)


LONGEST_STATEMENT = 3600.0
"""Seconds after which a server that does not answer an application's statement counts as gone."""


class GuardedConnection(StoreConnection):
    """A store's connection in the hands of an application, for one transaction. Every use raises once that is over.

    It shares the connection to the server with the one that the store keeps, and is of no use after its transaction.
    """

    def __init__(self, connection: StoreConnection, limit: timedelta | None, clock: Clock) -> None:
        super().__init__(connection.pgconn)
        self._autocommit = True  # the transaction has been begun by hand
        self.cursor_factory = GuardedCursor
        self.deadlines = connection.deadlines
        # What is prepared belongs to the session: with a list of its own, this object would give names that are taken already.
        self._prepared = connection._prepared
        self.patience = LONGEST_STATEMENT
        self.is_over = False
        self._is_done = False
        self._ending = threading.Lock()
        """Held while it is decided whether the time or the transaction was over first."""
        self._pid = os.getpid()
        self._limit = limit
        self._clock = clock
        self._deadline = None if limit is None else clock.monotonic() + limit.total_seconds()
        self._watch: threading.Timer | None = None
        if limit is not None:
            self._watch = threading.Timer(max(limit.total_seconds(), 0), self._end_of_time)
            self._watch.daemon = True
            self._watch.start()

    def __del__(self, *_: object) -> None:
        """The connection beneath belongs to the store, which closes it."""

    # -- what an application uses ------------------------------------------------------------------------------------

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        self.check()
        try:
            answer = super().wait(gen, *arguments, **options)
        except psycopg.Error as error:
            if self.is_over:
                raise self.too_long() from error
            raise
        self._check_begun()
        return answer

    def commit(self) -> None:
        raise _not_here("commit() is not yours to call")

    def rollback(self) -> None:
        raise _not_here("rollback() is not yours to call")

    def close(self) -> None:
        raise _not_here("close() is not yours to call")

    def __enter__(self) -> Any:
        raise _not_here("'with connection' would commit")

    # -- what the store uses -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise unless the transaction is still under way."""
        if self._pid != os.getpid():
            raise NoTransaction("this process was forked inside the transaction, which belongs to its parent")
        if self._deadline is not None and not self._is_done and self._clock.monotonic() >= self._deadline:
            self._end_of_time()
        if self.is_over:
            raise self.too_long()
        if self._is_done:
            raise NoTransaction("the transaction of this connection has ended: open another")
        self._check_begun()

    def _check_begun(self) -> None:
        """Raise once the transaction was ended by whatever way: the next statement would commit by itself."""
        if self.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            raise _ended_inside()

    def finish(self, is_still_in_it: Callable[[], bool]) -> None:
        """Make sure that it is the transaction that was begun which is committed now, and that nobody uses this connection any more."""
        self.check()
        try:
            # One that has failed answers nothing, and cannot be committed anyway.
            is_ours = self.pgconn.transaction_status == pq.TransactionStatus.INERROR or is_still_in_it()
        except psycopg.Error as error:
            if self.is_over:
                raise self.too_long() from error
            raise
        if not is_ours:
            raise _ended_inside()
        self.give_up()
        if self.is_over:
            raise self.too_long()

    def give_up(self) -> None:
        """From here on nobody uses this connection."""
        with self._ending:
            self._is_done = True
        if self._watch is not None:
            self._watch.cancel()

    def too_long(self) -> TransactionTooLong:
        took = "" if self._limit is None else f" of {format_duration(self._limit)}"
        return TransactionTooLong(f"the transaction took longer than its limit{took} and was rolled back: do slow work before it")

    def _end_of_time(self) -> None:
        with self._ending:
            if not self._is_done:
                self.is_over = True
                shut_down(self.pgconn)  # the server rolls back, whatever this connection was waiting for


class GuardedCursor(psycopg.Cursor[Any]):
    """Refuses what plainly would end the transaction, before it does. What cannot be seen in a text is noticed behind it."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        self._refuse_end(query)
        return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        self._refuse_end(query)
        super().executemany(query, params_seq, **options)

    def stream(self, query: Any, params: Any = None, **options: Any) -> Any:
        self._refuse_end(query)
        return super().stream(query, params, **options)

    def _refuse_end(self, query: Any) -> None:
        text = query.as_string(self) if isinstance(query, sql.Composable) else query
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        if isinstance(text, str) and _ENDS.match(text):
            raise _not_here(f"{text.strip()[:40]!r} is not yours to run")


@contextmanager
def guarded(connection: StoreConnection, limit: timedelta | None, clock: Clock) -> Iterator[GuardedConnection]:
    """Lend ``connection``, which is in a transaction, to an application. The caller finishes it, and commits afterwards, or rolls back."""
    given = GuardedConnection(connection, limit, clock)
    try:
        yield given
    except psycopg.Error as error:
        if given.is_over:
            raise given.too_long() from error
        raise
    finally:
        given.give_up()


def _ended_inside() -> TransactionOpen:
    return _not_here("the transaction was ended inside its block, so what was written before that may be stored, and nothing behind it is")


def _not_here(what: str) -> TransactionOpen:
    return TransactionOpen(f"{what}: the transaction is Onward's; leave its 'with' block to commit, raise an exception to roll back")
