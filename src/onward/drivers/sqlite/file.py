"""One SQLite file as a process uses it: one writing connection behind a fair lock, a few reading ones, all reset after a fork."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from onward.drivers.sqlite.connection import become_wal, close_quietly, connect, create, execute, forget, identity, raw
from onward.drivers.sqlite.fair_lock import FairLock
from onward.drivers.sqlite.file_system import is_network
from onward.drivers.sqlite.migrate import migrate
from onward.drivers.sqlite.vendor_errors import FULL, code_of, is_busy, is_undecodable, translate
from onward.errors import OutcomeUnknown, StoreBusy, StoreUnavailable, TransactionOpen

T = TypeVar("T")
LONGEST_WAIT_TO_FORK = 1.0
MOST_IDLE_READERS = 8


class SQLiteFile:
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
        self._start_afresh()
        _files.add(self)

    def _start_afresh(self) -> None:
        self.lock = FairLock()
        self.inside: set[int] = set()
        """Threads that are inside a transaction of the store's own. More than one only while those that took too long come back."""
        self._identity: tuple[int, int] | None = None
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._seen_version = -1
        self._is_held = False

    def hold_before_fork(self) -> None:
        """Let no thread be in the middle of a write while the process forks: SQLite would hand the child a lock that nobody gives back."""
        self._is_held = threading.get_ident() not in self.inside and self.lock.acquire(LONGEST_WAIT_TO_FORK)

    def let_go_after_fork(self) -> None:
        """In the parent: go on."""
        if self._is_held:
            self._is_held = False
            self.lock.release()

    def reset_after_fork(self) -> None:
        """Forget in a child what belongs to the parent. Inherited connections stay open for ever: closing one would drop locks."""
        for connection in [*self._readers, *([self._writer] if self._writer else [])]:
            forget(connection)
        self._is_forked_inside = self._is_forked_inside or not self._is_held
        self._start_afresh()

    # -- open and close ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the file, making it and its tables where there are none. Idempotent."""
        if self._identity is not None:
            return
        self.refuse_inside()
        with self.locked() as deadline:
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
            migrate(connection, self.statements, self.prefix, self._now_text(), deadline, str(self.path))
            found = identity(self.path)
        except BaseException:
            close_quietly(connection)
            raise
        self._writer, self._identity = connection, found

    def close(self) -> None:
        """Close every connection that is not in use. A later call opens again."""
        self.refuse_inside()
        with self.locked():
            self._drop_writer()
            self._drop_readers()
            self._identity = None

    def _drop_writer(self) -> None:
        if self._writer is not None:
            close_quietly(self._writer)
            self._writer = None
            self._seen_version = -1

    def _drop_readers(self) -> None:
        while self._readers:
            close_quietly(self._readers.pop())

    def _check_identity(self) -> None:
        if identity(self.path) != self._identity:
            self._drop_readers()
            if self._writer is not None:
                self._drop_writer()
            raise StoreUnavailable(f"{self.path} was replaced by another file while in use: restart to use the new one")

    # -- write -------------------------------------------------------------------------------------------------------

    def write(self, work: Callable[[sqlite3.Cursor], T], ids: Callable[[], tuple[str, ...]] = tuple, *, sees: bool = False) -> T:
        """Run ``work`` in one transaction that holds the write lock from its start. ``ids`` are named when the commit's outcome is unknown.

        ``sees`` remembers that everything committed so far has been seen; ``has_news`` looks for what came after.
        """
        self.refuse_inside()
        with self.locked() as deadline:
            try:
                self._open(deadline)
                return self._write(work, ids, deadline, sees)
            except StoreUnavailable:
                self._drop_writer()
                raise

    def _write(self, work: Callable[[sqlite3.Cursor], T], ids: Callable[[], tuple[str, ...]], deadline: float, sees: bool) -> T:
        self._check_identity()
        if self._writer is None:
            self._writer = connect(self.path, deadline)
        connection = self._writer
        execute(connection, "BEGIN IMMEDIATE", deadline, str(self.path))
        try:
            if sees:
                self._seen_version = _data_version(connection)
            result = self._try_tolerantly(connection, work)
        except BaseException as error:
            self._roll_back(connection)
            raise self._translated(error) from error
        self.commit(connection, ids, deadline)
        return result

    def _try_tolerantly(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Cursor], T]) -> T:
        try:
            return work(connection.cursor())
        except sqlite3.OperationalError as error:
            if not is_undecodable(error):
                raise
        # Somebody wrote bytes that are no text. As bytes they can be read, and that row alone is set aside.
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        connection.text_factory = _text_or_bytes
        try:
            return work(connection.cursor())
        finally:
            connection.text_factory = str

    def commit(self, connection: sqlite3.Connection, ids: Callable[[], tuple[str, ...]], deadline: float) -> None:
        """Commit. Raises ``OutcomeUnknown`` when the disk failed in the middle of it."""
        while True:
            try:
                raw(connection, "COMMIT")
                return
            except sqlite3.Error as error:
                if is_busy(error) and time.monotonic() < deadline:
                    time.sleep(0.001)
                    continue
                self._roll_back(connection)
                if is_busy(error) or code_of(error) == FULL:
                    # No frame that ends a transaction was written, so nothing of it is stored.
                    raise translate(error, str(self.path)) from error
                if connection is self._writer:
                    self._drop_writer()
                raise OutcomeUnknown(
                    f"the commit to {self.path} failed ({error}), so the change may or may not be stored: "
                    "repeat it with the same id or key",
                    job_ids=ids(),
                ) from error

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                raw(connection, "ROLLBACK")
        except sqlite3.Error:
            if connection is self._writer:
                self._drop_writer()

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, sqlite3.Error | UnicodeEncodeError | OverflowError):
            return translate(error, str(self.path))
        return error

    # -- read --------------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        """Run statements that only read. They wait for no writer."""
        self.refuse_inside()
        self.open()
        self._check_identity()
        deadline = time.monotonic() + self.timeout
        while True:
            connection = self._reader(deadline)
            try:
                result = self._read_tolerantly(connection, work)
            except BaseException as error:
                close_quietly(connection)
                if not (isinstance(error, sqlite3.Error) and is_busy(error) and time.monotonic() < deadline):
                    raise self._translated(error) from error
                time.sleep(0.001)
            else:
                if len(self._readers) < MOST_IDLE_READERS and self._identity is not None:
                    self._readers.append(connection)
                else:
                    close_quietly(connection)
                return result

    def _read_tolerantly(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Cursor], T]) -> T:
        try:
            return work(connection.cursor())
        except sqlite3.OperationalError as error:
            if not is_undecodable(error):
                raise
        connection.text_factory = _text_or_bytes
        try:
            return work(connection.cursor())
        finally:
            connection.text_factory = str

    def _reader(self, deadline: float) -> sqlite3.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return connect(self.path, deadline)

    # -- who holds the lock, and what is new -------------------------------------------------------------------------

    @property
    def is_inside(self) -> bool:
        """True in a thread that is inside a transaction of the store's own."""
        return threading.get_ident() in self.inside

    def refuse_inside(self) -> None:
        """Raise ``TransactionOpen`` in a thread that holds the write lock itself: it would wait for itself."""
        if self.is_inside:
            raise TransactionOpen(
                "this thread is inside a transaction of the store, so the call could only wait for itself: pass within=connection"
            )

    def locked(self) -> Locked:
        """Queue up for the write lock of this process, in order. Gives the deadline for what follows; raises ``StoreBusy``."""
        return Locked(self)

    def has_news(self) -> bool:
        """Say whether another connection has committed since the last write with ``sees``. False while the lock is held: ask again."""
        if self._identity is None or not self.lock.acquire(0):
            return False
        try:
            if self._writer is None or self._seen_version < 0:
                return True
            return _data_version(self._writer) != self._seen_version
        except sqlite3.Error:
            return True  # the next turn finds out what is wrong
        finally:
            self.lock.release()


class Locked:
    """The process's own place in the queue of writers; gives the deadline for what follows."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file
        self._lock = file.lock
        self._pid = os.getpid()
        self._once = threading.Lock()

    def __enter__(self) -> float:
        deadline = time.monotonic() + self._file.timeout
        if not self._lock.acquire(self._file.timeout):
            raise StoreBusy(
                f"another thread of this process held the write lock of {self._file.path} for longer than the timeout: "
                "nothing was stored; keep transactions short, and try again"
            )
        return deadline

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Let the next writer in. Does nothing the second time, or in a forked child that left its parent's block."""
        if self._pid == os.getpid() and self._once.acquire(blocking=False):
            self._lock.release()


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


_files: weakref.WeakSet[SQLiteFile] = weakref.WeakSet()


def _before_fork() -> None:
    for file in list(_files):
        file.hold_before_fork()


def _after_in_parent() -> None:
    for file in list(_files):
        file.let_go_after_fork()


def _after_in_child() -> None:
    for file in list(_files):
        file.reset_after_fork()


if hasattr(os, "register_at_fork"):  # pragma: no branch - absent only on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
