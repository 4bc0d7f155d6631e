"""One SQLite file as a process uses it: one writing connection behind a fair lock, a few reading ones, all reset after a fork."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from onward.drivers.fork import Forked
from onward.drivers.sqlite.commit import commit, roll_back
from onward.drivers.sqlite.connection import DURABLE, RELAXED, become_wal, close_quietly, connect, create, execute, forget, identity
from onward.drivers.sqlite.fair_lock import FairLock
from onward.drivers.sqlite.file_system import is_network
from onward.drivers.sqlite.migrate import migrate
from onward.drivers.sqlite.place import Place
from onward.drivers.sqlite.readers import Readers
from onward.drivers.sqlite.tolerant import tolerantly
from onward.drivers.sqlite.vendor_errors import translate
from onward.errors import OutcomeUnknown, StoreUnavailable, TransactionOpen

T = TypeVar("T")
LONGEST_WAIT_TO_FORK = 1.0
UNTRANSLATED = (sqlite3.Error, UnicodeEncodeError, OverflowError)


class SQLiteFile(Forked):
    """Opens, migrates, reads and writes the file. Every error that leaves is one of ``onward.errors``."""

    def __init__(
        self,
        path: Path,
        statements: Mapping[str, str],
        *,
        prefix: str,
        timeout: float,
        now_text: Callable[[], str],
        file_system: Callable[[], str],
    ) -> None:
        self.path = path
        self.statements = statements
        self.prefix = prefix
        self.timeout = timeout
        self._now_text = now_text
        self._file_system = file_system
        self._is_forked_inside = False
        self.schema_version: int | None = None
        """Which version the tables had when they were opened."""
        self._start_afresh()
        self.follow_forks()

    def _start_afresh(self) -> None:
        self._lock = FairLock()
        self.inside: set[int] = set()
        """Threads that are inside a transaction of the store's own. More than one only while those that took too long come back."""
        self._identity: tuple[int, int] | None = None
        self._writer: sqlite3.Connection | None = None
        self._is_relaxed = False
        self._readers = Readers(self.path)
        self._seen: dict[int, int] = {}
        """By thread, up to which version all that was committed has been seen: several workers may share this file."""
        self._is_held = False

    # -- open and close ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the file, making it and its tables where there are none. Idempotent."""
        if self._identity is not None:
            return
        self.refuse_inside()
        with self.place() as deadline:
            self._open(deadline)

    def _open(self, deadline: float) -> None:
        if self._identity is not None:
            return
        if self._is_forked_inside:
            raise StoreUnavailable(
                f"this process was forked while a transaction on {self.path} was open, so SQLite believes here that it is open still: "
                "fork before the transaction, or start the child with spawn"
            )
        name = self._file_system()
        if is_network(name):
            raise StoreUnavailable(
                f"{self.path} is on a network file system ({name}), where SQLite loses data: put it on a local disk, "
                "or add ?network_file_system=allow to the URL if only one machine ever opens it"
            )
        create(self.path)
        connection = connect(self.path, deadline)
        try:
            become_wal(connection, deadline, str(self.path))
            self.schema_version = migrate(connection, self.statements, self.prefix, self._now_text(), deadline, str(self.path))
            found = identity(self.path)
        except BaseException:
            close_quietly(connection)
            raise
        self._writer, self._identity = connection, found

    def close(self) -> None:
        """Close every connection that is not in use. A later call opens again."""
        self.refuse_inside()
        with self.place():
            self._drop_writer()
            self._drop_readers()
            self._identity = None

    def __del__(self) -> None:
        """Close what an application forgot to: from Python 3.13 on a connection that is only dropped is warned of.

        What a fork inherited is not reached here: the child has forgotten it.
        """
        if "_readers" in self.__dict__:  # else the making itself failed
            self._drop_writer()
            self._readers.close()

    def _drop_writer(self) -> None:
        if self._writer is not None:
            close_quietly(self._writer)
            self._writer = None
            self._is_relaxed = False
            self._seen.clear()

    def _drop_readers(self) -> None:
        self._readers.close()
        self._readers = Readers(self.path)

    def check_identity(self) -> None:
        """Raise ``StoreUnavailable`` when another file is in the place of the one that was opened."""
        if identity(self.path) != self._identity:
            self._drop_readers()
            self._drop_writer()
            raise StoreUnavailable(f"{self.path} was replaced by another file while in use: restart to use the new one")

    # -- write -------------------------------------------------------------------------------------------------------

    def write(
        self, work: Callable[[sqlite3.Cursor], T], ids: Callable[[], tuple[str, ...]] = tuple, *, sees: bool = False, relaxed: bool = False
    ) -> T:
        """Run ``work`` in one transaction that holds the write lock from its start. ``ids`` are named when the commit's outcome is unknown.

        ``sees`` remembers that everything committed so far has been seen; ``has_news`` looks for what came after. ``relaxed`` does not
        wait for the disk (``onward.drivers.durability``).
        """
        self.refuse_inside()
        with self.place() as deadline:
            try:
                self._open(deadline)
                return self._write(work, ids, deadline, sees, relaxed)
            except BaseException as error:
                is_stuck = self._writer is not None and self._writer.in_transaction
                if is_stuck or isinstance(error, StoreUnavailable | OutcomeUnknown):
                    self._drop_writer()
                raise

    def _write(
        self, work: Callable[[sqlite3.Cursor], T], ids: Callable[[], tuple[str, ...]], deadline: float, sees: bool, relaxed: bool
    ) -> T:
        self.check_identity()
        if self._writer is None:
            self._writer = connect(self.path, deadline)
        connection = self._writer
        if relaxed != self._is_relaxed:
            execute(connection, RELAXED if relaxed else DURABLE, deadline, str(self.path))
            self._is_relaxed = relaxed
        execute(connection, "BEGIN IMMEDIATE", deadline, str(self.path))
        try:
            if sees:
                self._seen[threading.get_ident()] = _data_version(connection)
            result = tolerantly(connection, work, lambda: _begin_again(connection))
        except UNTRANSLATED as error:
            roll_back(connection)
            raise translate(error, str(self.path)) from error
        except BaseException:
            roll_back(connection)
            raise
        commit(connection, ids, deadline, str(self.path))
        return result

    # -- read --------------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        """Run statements that only read. They wait for no writer."""
        self.refuse_inside()
        self.open()
        self.check_identity()
        try:
            return self._readers.read(work, time.monotonic() + self.timeout)
        except UNTRANSLATED as error:
            raise translate(error, str(self.path)) from error

    # -- who holds the lock, and what is new -------------------------------------------------------------------------

    @property
    def is_inside(self) -> bool:
        """True in a thread that is inside a transaction of the store's own."""
        return threading.get_ident() in self.inside

    def refuse_inside(self) -> None:
        """Raise ``TransactionOpen`` in a thread that holds the write lock itself: it would wait for itself."""
        if self.is_inside:
            raise TransactionOpen(
                "this thread is inside a transaction of the store, so the call could only wait for itself: "
                "pass within=connection to what takes it, and call the rest behind the block"
            )

    def place(self) -> Place:
        """Queue up for the write lock of this process, in order."""
        return Place(self._lock, self.timeout, self.path)

    def has_news(self) -> bool:
        """Say whether another connection has committed since this thread's last write with ``sees``. False while the lock is held."""
        if self._identity is None or not self._lock.acquire(0):
            return False
        try:
            return self._writer is None or _data_version(self._writer) != self._seen.get(threading.get_ident())
        except sqlite3.Error:
            return True  # the next turn finds out what is wrong
        finally:
            self._lock.release()

    # -- forks -------------------------------------------------------------------------------------------------------

    def hold_before_fork(self) -> None:
        """Let no thread be in the middle of a write while the process forks: SQLite would hand the child a lock that nobody gives back."""
        self._is_held = not self.is_inside and self._lock.acquire(LONGEST_WAIT_TO_FORK)

    def let_go_after_fork(self) -> None:
        if self._is_held:
            self._is_held = False
            self._lock.release()

    def reset_after_fork(self) -> None:
        """Forget in a child what belongs to the parent."""
        self._readers.forget()
        if self._writer is not None:
            forget(self._writer)
        self._is_forked_inside = self._is_forked_inside or not self._is_held
        self._start_afresh()


def _begin_again(connection: sqlite3.Connection) -> None:
    connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
