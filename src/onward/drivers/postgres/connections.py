"""A store's own connections: made on demand, kept for the next one, given up when the server does not answer, left alone after a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, pq

from onward.drivers.fork import Forked
from onward.drivers.postgres.bulk import copied
from onward.drivers.postgres.deadlines import Deadlines
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.vendor_errors import is_connection_lost
from onward.drivers.sql.rows import read_instant
from onward.drivers.sql.statements import Many, Row, Statement, as_json
from onward.errors import StoreBusy

T = TypeVar("T")
CONNECT_TIMEOUT = 5
# libpq's own: what finds out that the other side is gone while nothing is being sent.
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3, "tcp_user_timeout": 10_000}
ROLLBACK_WITHIN = 5.0
"""Seconds after which a server that does not even roll back counts as gone."""
ROWS_A_SECOND = 1000
"""What a slow server surely stores: a statement with very many rows may take longer than another."""
WORTH_COPYING = 200
"""Rows of one request from which on they are copied. With keys, 200 took 28 microseconds each, 36 by the statements; 10,000 15 and 27."""


class StoreConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection of the store's. Commits by itself unless ``begin`` has begun a transaction."""

    deadlines: Deadlines | None = None
    patience = 0.0
    """Seconds that the next statements may take; 0 is no limit."""
    begun: str = ""
    """What the server called the transaction that ``begin`` began."""
    can_pipeline: bool | None = None
    """False with a libpq of before version 14, and where a transaction without a BEGIN would not be READ COMMITTED; None until asked."""

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Every exchange with the server goes through here."""
        if self.deadlines is None or not self.patience:
            return super().wait(gen, *arguments, **options)
        token = self.deadlines.begin(self, self.patience)
        try:
            return super().wait(gen, *arguments, **options)
        finally:
            self.deadlines.end(token)

    def begin(self, text: StatementText, lock_timeout: float, *, is_own: bool) -> datetime:
        """Begin a transaction, and read the server's clock on the way. ``is_own`` says that only our own statements follow."""
        cursor = psycopg.Cursor(self)
        cursor.execute(text.begin(lock_timeout, is_own=is_own))
        while cursor.nextset():
            continue
        ((now, begun, *_),) = cursor.fetchall()
        self.begun = begun or ""
        return read_instant(now)

    def is_still_in_it(self, text: StatementText) -> bool:
        """Ask the server whether this transaction is the one that ``begin`` began."""
        return self.run(text, Statement("is_same_transaction", {"begun": self.begun})) == [(True,)]

    def run(self, text: StatementText, wanted: Statement | Many) -> list[Row]:
        """Run one statement of an operation, and give its rows."""
        rows = len(wanted.parameters) if isinstance(wanted, Many) else wanted.rows
        before = self.patience
        self.patience = before and before + rows / ROWS_A_SECOND
        try:
            if rows >= WORTH_COPYING and (answer := copied(self, text, wanted)) is not None:
                return answer
            parameters = {"rows": as_json(wanted.parameters)} if isinstance(wanted, Many) else wanted.parameters
            cursor = psycopg.Cursor(self).execute(text[wanted.name], parameters)
            return cursor.fetchall() if cursor.description is not None else []
        finally:
            self.patience = before

    def run_together(self, text: StatementText, wanted: Sequence[Statement]) -> list[Row]:
        """Run statements in one round trip that is a transaction by itself, committed when this returns, and give the last one's rows."""
        if self.can_pipeline is None:
            self.can_pipeline = psycopg.Capabilities().has_pipeline() and self.run(text, Statement("is_read_committed")) == [(True,)]
        try:
            with self.pipeline() if self.can_pipeline else self.transaction():
                cursors = [psycopg.Cursor(self).execute(text[one.name], one.parameters) for one in wanted]
        except psycopg.Error:
            self.close()  # psycopg would for ever name a statement that failed to be prepared in a pipeline
            raise
        return cursors[-1].fetchall()

    def end(self, text: StatementText) -> str:
        """Commit. Gives what the server says that it did."""
        return psycopg.Cursor(self).execute(text["commit"]).statusmessage or ""

    def forget_session(self, text: StatementText) -> None:
        """Undo what an application's statements may have set for the session."""
        try:
            psycopg.Cursor(self).execute(text["forget_session"], prepare=False)
        except psycopg.Error:
            self.close()

    def roll_back(self) -> None:
        """End a transaction that is not to be committed. A connection that cannot even do that is closed."""
        if self.pgconn.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
            self.patience = ROLLBACK_WITHIN
            self.rollback()

    @property
    def is_idle(self) -> bool:
        return self.pgconn.status == pq.ConnStatus.OK and self.pgconn.transaction_status == pq.TransactionStatus.IDLE


class Connections(Forked):
    """At most ``most`` connections are lent at once; the worker's own verbs (``is_spare``) come on top: handlers cannot starve them.

    Raises what psycopg raises, and ``StoreBusy`` when none became free within ``timeout`` seconds.
    """

    def __init__(self, url: str, *, most: int, timeout: float, prepare: bool) -> None:
        self._url = url
        self._most = most
        self._timeout = timeout
        self._prepare = prepare
        self._start_afresh()
        self.follow_forks()

    def _start_afresh(self) -> None:
        self._pid = os.getpid()
        self._idle: list[StoreConnection] = []
        self._places = threading.BoundedSemaphore(self._most)
        self._deadlines = Deadlines()
        self._generation = 0

    def reset_after_fork(self) -> None:
        # psycopg closes nothing in a process that did not open it, so the parent's connections may simply be dropped.
        _inherited.extend(self._idle)
        self._start_afresh()

    @contextmanager
    def lend(
        self, patience: float, *, first: Callable[[StoreConnection], T], is_spare: bool = False
    ) -> Iterator[tuple[StoreConnection, T]]:
        """Lend a connection on which ``first`` has been done, and take it back; one that is broken or in a transaction then is closed.

        A connection that the server had given up meanwhile is found out by ``first``, which is then done on a new one.
        """
        places = None if is_spare else self._places
        if places is not None and not places.acquire(timeout=self._timeout):
            raise StoreBusy(
                f"all {self._most} connections of this store were in use for {self._timeout:g} s: end transactions sooner, "
                "or add ?connections=20 to the URL"
            )
        try:
            connection, value = self._begin(patience, first)
            generation, pid = self._generation, os.getpid()
            try:
                yield connection, value
            finally:
                self._give_back(connection, generation, pid)
        finally:
            if places is not None:
                places.release()

    def _begin(self, patience: float, first: Callable[[StoreConnection], T]) -> tuple[StoreConnection, T]:
        while (connection := self._take()) is not None:
            connection.patience = patience
            try:
                return connection, first(connection)
            except BaseException as error:
                self._give_back(connection, self._generation, os.getpid())
                if not isinstance(error, psycopg.Error) or not is_connection_lost(error):
                    raise
            self.forget_idle()
        connection = self._connect()
        connection.patience = patience
        try:
            return connection, first(connection)
        except BaseException:
            self._give_back(connection, self._generation, os.getpid())
            raise

    def _take(self) -> StoreConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_idle:
                return connection
            connection.close()

    def _give_back(self, connection: StoreConnection, generation: int, pid: int) -> None:
        """Keep it for the next one, rolled back if need be: a refusal is no reason to make a new one."""
        if pid != os.getpid():  # forked meanwhile: closing it would end the parent's
            _inherited.append(connection)
            return
        if not connection.is_idle:
            with suppress(psycopg.Error):
                connection.roll_back()
        if connection.is_idle and generation == self._generation:
            self._idle.append(connection)
        else:
            connection.close()

    def _connect(self) -> StoreConnection:
        connection = StoreConnection.connect(complete(self._url, "onward"), autocommit=True, prepare_threshold=5 if self._prepare else None)
        connection.deadlines = self._deadlines
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        # Behind a transaction pooler, what somebody else listens for may arrive here; without a handler psycopg would keep it.
        connection.add_notify_handler(lambda notification: None)
        return connection

    def forget_idle(self) -> None:
        """One connection was found dead, so the others of its time probably are as well."""
        self._generation += 1
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close what is not in use now, and what is in use when it is given back."""
        self.forget_idle()

    def __del__(self) -> None:
        if "_idle" in self.__dict__ and self._pid == os.getpid():
            self.forget_idle()


def complete(url: str, name: str) -> str:
    """Write the connection string for libpq: what the URL says, and our own where it says nothing. Texts are always sent as UTF-8."""
    asked = conninfo.conninfo_to_dict(url)
    ours = {"application_name": name, "connect_timeout": CONNECT_TIMEOUT, **ALIVE}
    return conninfo.make_conninfo(**{**ours, **asked, "client_encoding": "UTF8"})  # type: ignore[arg-type]  # numbers are written as text


_inherited: list[StoreConnection] = []
