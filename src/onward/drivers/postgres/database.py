"""One Postgres database as a process uses it: how an operation is run, committed, and tried again; what may be said when it fails."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg

from onward.clock import Clock, SystemClock
from onward.drivers.postgres.connections import Connections, StoreConnection
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.transaction import GuardedConnection, guarded
from onward.drivers.postgres.vendor_errors import DEADLOCK, SERIALIZATION_FAILURE, is_connection_lost, sqlstate_of, text_of, translate
from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.statements import Many, Operation, Row, Statement
from onward.errors import OnwardError, OutcomeUnknown, StoreBusy, TransactionOpen
from onward.steps import drive

T = TypeVar("T")
TRIES = 10
"""How often a transaction is begun that met another one (a deadlock, a serialization failure)."""
ANSWER_WITHIN = 5.0
"""Seconds, beyond the time that a statement may wait for locks, after which a server that says nothing counts as gone."""
LOOK_WITHIN = 120.0
"""The same for what only reads, and may have to read a lot."""
TURN_WAITS = 1.0
"""Seconds that work on many jobs waits for somebody else's transaction before it takes the jobs one by one."""
ONE_WAITS = 0.05
"""Seconds that one of them is waited for then."""
UNTRANSLATED = (psycopg.Error, UnicodeEncodeError, OverflowError, OSError)


class Database:
    """Every error that leaves is one of ``onward.errors``."""

    def __init__(
        self, connections: Connections, text: StatementText, clock: Clock, *, timeout: float, place: str, check: Callable[[], None]
    ) -> None:
        self._connections = connections
        self._text = text
        self._clock = clock
        self.timeout = timeout
        """Seconds that a statement waits for another transaction, unless something else is said."""
        self._place = place
        self._check = check
        self._inside: set[tuple[int, int]] = set()
        """Which threads of which process are inside a transaction: a fork uses the numbers of threads again."""

    @property
    def own_clock(self) -> Callable[[], datetime] | None:
        """The clock that counts in place of the database's; only a test has one."""
        return None if isinstance(self._clock, SystemClock) else self._clock.now

    @property
    def is_inside(self) -> bool:
        """True in a thread that is inside a transaction of the store's own."""
        return _here() in self._inside

    def refuse_inside(self) -> None:
        """Raise ``TransactionOpen`` in a thread that is inside a transaction of the store's own: it could wait for itself."""
        if self.is_inside:
            raise TransactionOpen(
                "this thread is inside a transaction of the store, so the call could only wait for itself: "
                "pass within=connection to what takes it, and call the rest behind the block"
            )

    # -- one operation -----------------------------------------------------------------------------------------------

    def write(
        self,
        operation: Callable[[datetime], Operation[T]],
        ids: Callable[[], tuple[str, ...]] = tuple,
        *,
        lock_timeout: float | None = None,
        is_spare: bool = False,
    ) -> T:
        """Run an operation in one transaction. ``ids`` are named when the outcome of the commit is unknown.

        ``lock_timeout`` is how many seconds a statement waits for another transaction.
        """
        return self.transact(lambda connection, now: self.drive_on(connection, operation(now)), ids, lock_timeout, is_spare)

    def transact(
        self,
        work: Callable[[StoreConnection, datetime], T],
        ids: Callable[[], tuple[str, ...]] = tuple,
        lock_timeout: float | None = None,
        is_spare: bool = False,
    ) -> T:
        """``write`` for work that runs several operations."""
        self.refuse_inside()
        self._check()
        waits = self.timeout if lock_timeout is None else lock_timeout

        def once() -> T:
            begin = self._beginning(waits, is_own=True)
            with self._connections.lend(waits + ANSWER_WITHIN, first=begin, is_spare=is_spare) as (connection, now):
                result = work(connection, now)
                self._commit(connection, ids)
                return result

        return self._insist(once)

    def _insist(self, once: Callable[[], T]) -> T:
        """Do it, and do it again when another transaction was in the way that will not be there the next time."""
        for tries_left in range(TRIES - 1, -1, -1):
            try:
                return once()
            except UNTRANSLATED as error:
                if not tries_left or sqlstate_of(error) not in (SERIALIZATION_FAILURE, DEADLOCK):
                    raise translate(error, self._place) from error
            time.sleep(random.uniform(0.001, 0.02) * (TRIES - tries_left))
        raise AssertionError("the last try raises")

    def _beginning(self, lock_timeout: float, *, is_own: bool) -> Callable[[StoreConnection], datetime]:
        def begin(connection: StoreConnection) -> datetime:
            now = connection.begin(self._text, lock_timeout, is_own=is_own)
            own = self.own_clock
            return now if own is None else own()

        return begin

    def _commit(self, connection: StoreConnection, ids: Callable[[], tuple[str, ...]]) -> None:
        try:
            status = connection.end(self._text)
        except UNTRANSLATED as error:
            if not is_connection_lost(error):
                raise
            raise OutcomeUnknown(
                f"the connection to {self._place} was lost in the middle of the commit, so the change may or may not be stored: "
                "repeat it with the same id or key",
                job_ids=ids(),
            ) from error
        if status != "COMMIT":
            raise StoreBusy(f"{self._place} rolled the transaction back instead of committing it: nothing was stored; try again")

    def read(self, operation: Callable[[], Operation[T]], *, patience: float | None = None, is_spare: bool = False) -> T:
        """Run an operation whose statements only read; each sees what is committed by then."""
        patience = self.timeout + ANSWER_WITHIN if patience is None else patience
        self.refuse_inside()
        self._check()

        def once() -> T:
            with self._connections.lend(patience, first=lambda one: self.drive_on(one, operation()), is_spare=is_spare) as (_, result):
                return result

        return self._insist(once)

    def alone(self, *wanted: Statement, ids: tuple[str, ...] = (), is_spare: bool = True) -> list[Row]:
        """Run one statement that changes something and commits by itself, or several that do so together; gives the last one's rows.

        Raises ``OutcomeUnknown``, with ``ids``, when the answer was lost.
        """
        self.refuse_inside()
        self._check()

        def once() -> list[Row]:
            with self._connections.lend(self.timeout + ANSWER_WITHIN, first=_nothing, is_spare=is_spare) as (connection, _):
                return self._run_alone(connection, wanted, ids)

        return self._insist(once)

    def place(self) -> Row:
        """Ask where the store's tables are. Also for a thread that is inside a transaction: it is asked over another connection."""

        def once() -> Row:
            with self._connections.lend(
                self.timeout + ANSWER_WITHIN, first=lambda one: one.run(self._text, Statement("place")), is_spare=True
            ) as (_, rows):
                return rows[0]

        return self._insist(once)

    def look(self, wanted: Statement) -> list[Row]:
        """Run one statement of a worker's that only reads."""

        def operation() -> Operation[list[Row]]:
            return (yield wanted)

        return self.read(operation, is_spare=True)

    def _run_alone(self, connection: StoreConnection, wanted: Sequence[Statement], ids: tuple[str, ...]) -> list[Row]:
        try:
            return connection.run(self._text, wanted[0]) if len(wanted) == 1 else connection.run_together(self._text, wanted)
        except UNTRANSLATED as error:
            if not is_connection_lost(error):
                raise
            self._connections.forget_idle()
            raise OutcomeUnknown(
                f"the connection to {self._place} was lost before the answer came ({text_of(error)})", job_ids=ids
            ) from error

    def ask(self, sql: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Run a query that takes no parameters; gives the names of its columns, and its rows. Raises as ``read``."""

        def look(connection: StoreConnection) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
            cursor = psycopg.Cursor(connection).execute(sql)
            return tuple(column.name for column in cursor.description or ()), tuple(cursor.fetchall())

        self.refuse_inside()
        self._check()
        with self._translating(), self._connections.lend(LOOK_WITHIN, first=look) as (_, answer):
            return answer

    # -- steps of work that runs several operations ------------------------------------------------------------------

    def run_on(self, connection: StoreConnection, wanted: Statement | Many) -> list[Row]:
        return connection.run(self._text, wanted)

    def drive_on(self, connection: StoreConnection, operation: Operation[T]) -> T:
        return drive(lambda wanted: connection.run(self._text, wanted), operation)

    def explain(self, error: BaseException) -> OnwardError:
        return translate(error, self._place)

    # -- an application's transaction --------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, limit: timedelta | None) -> Iterator[GuardedConnection]:
        """Lend a connection in a transaction; commit at the end, roll back on an exception or when ``limit`` is over."""
        self.refuse_inside()
        self._check()
        thread = _here()
        with ExitStack() as lent:
            with self._translating():
                lending = self._connections.lend(self.timeout + ANSWER_WITHIN, first=self._beginning(self.timeout, is_own=False))
                connection, _ = lent.enter_context(lending)
            self._inside.add(thread)
            try:
                with guarded(connection, limit, self._clock) as given:
                    yield given  # the application's own errors are passed on as they are
                    with self._translating():
                        given.finish(lambda: connection.is_still_in_it(self._text))
                with self._translating():
                    self._commit(connection, tuple)
            finally:
                self._inside.discard(thread)
                if connection.is_idle and thread[0] == os.getpid():  # else it is not used again
                    connection.forget_session(self._text)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except UNTRANSLATED as error:
            raise translate(error, self._place) from error

    # -- time --------------------------------------------------------------------------------------------------------

    def now_text(self) -> str | None:
        """What a statement that commits by itself is given as ``now``: nothing, so that the database's clock counts, except in a test."""
        own = self.own_clock
        return None if own is None else write_instant(own())


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def _nothing(connection: StoreConnection) -> None:
    """What needs no transaction begins with nothing."""
