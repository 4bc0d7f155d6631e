"""How Onward opens and locks a SQLite file: WAL, ``synchronous=FULL``, and waiting that is fair to other processes."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

from onward.drivers.sqlite.vendor_errors import is_busy, translate
from onward.errors import StoreBusy, StoreUnavailable

RETRY_EVERY = 0.0002
RETRY_AT_MOST = 0.0003
# Fifty processes that all try every 0.2 ms leave two cores no time for the one that holds the lock; 16 of them then ran into their
# time-out. Whoever has not got it by now is in such a crowd, and tries less often, each at moments of its own.
CROWDED_AFTER = 0.2
RETRY_IN_A_CROWD = (0.001, 0.005)
# SQLite's own busy handler sleeps ever longer and starves behind a busy worker (an insert took 731 ms, against 0.5 ms this way).
DURABLE = "PRAGMA synchronous = FULL"
# A commit is written and not waited for; the next one that is durable waits for both.
RELAXED = "PRAGMA synchronous = NORMAL"
PRAGMAS = (
    "PRAGMA busy_timeout = 0",
    DURABLE,
    "PRAGMA mmap_size = 0",
    "PRAGMA journal_size_limit = 67108864",
    # In KiB. With 32768 a worker grew by 30 MB until it was full, and nothing was quicker for it.
    "PRAGMA cache_size = -4096",
)
OLDEST_SQLITE = (3, 35, 0)


def connect(path: Path, deadline: float, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Open a connection that may go from thread to thread, one at a time. The file must exist.

    ``deadline`` is a reading of ``time.monotonic``. Raises ``StoreUnavailable`` or ``StoreBusy``.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreUnavailable(f"SQLite {sqlite3.sqlite_version} is too old: Onward needs 3.35 or newer, so use a newer Python build")
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=factory,
        )
    except sqlite3.Error as error:
        raise translate(error, str(path)) from error
    try:
        for pragma in PRAGMAS:
            execute(connection, pragma, deadline, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def execute(connection: sqlite3.Connection, sql: str, deadline: float, path: str) -> list[Any]:
    """Run a statement that needs a lock, trying again until ``deadline``. Raises ``StoreBusy`` and its kin."""
    wait, started = RETRY_EVERY, time.monotonic()
    while True:
        try:
            return raw(connection, sql)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise translate(error, path) from error
        now = time.monotonic()
        left = deadline - now
        if left <= 0:
            raise StoreBusy(
                f"another connection held the write lock of {path} for longer than the timeout: nothing was stored; "
                "if it is your own transaction, pass its connection as within=; else keep transactions short, and try again"
            )
        time.sleep(min(wait, left))
        crowded = now - started > CROWDED_AFTER
        wait = random.uniform(*RETRY_IN_A_CROWD) if crowded else min(wait * 1.1, RETRY_AT_MOST)


def raw(connection: sqlite3.Connection, sql: str) -> list[Any]:
    """Run a statement past whatever a subclass or a row factory would make of it."""
    cursor = sqlite3.Connection.cursor(connection, sqlite3.Cursor)
    cursor.row_factory = None
    return cursor.execute(sql).fetchall()


def become_wal(connection: sqlite3.Connection, deadline: float, path: str) -> None:
    """Switch the file to a write-ahead log, which stays. Raises ``StoreUnavailable`` when the file system cannot have one."""
    mode = execute(connection, "PRAGMA journal_mode = WAL", deadline, path)[0][0]
    if mode != "wal":
        raise StoreUnavailable(f"{path} cannot use a write-ahead log (its journal mode stays {mode!r}): put it on a local disk")


def create(path: Path) -> None:
    """Make sure that there is a file to open; a new one can be read by nobody else. ``-wal`` and ``-shm`` get the mode of the file."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise StoreUnavailable(f"{path} is a directory: give the path of a file in it, such as {path / 'app.db'}") from None
    except FileNotFoundError:
        raise StoreUnavailable(f"the directory {path.parent} does not exist: create it, or correct the URL") from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be created: {error.strerror}") from error


def identity(path: Path) -> tuple[int, int]:
    """Say which file is at ``path``, so that a replaced one is noticed. Raises ``StoreUnavailable`` when it is gone."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise StoreUnavailable(f"{path} is gone or cannot be reached ({error.strerror}): was it moved or deleted while in use?") from None
    return found.st_dev, found.st_ino


def close_quietly(connection: sqlite3.Connection) -> None:
    """Close a connection that may be broken."""
    try:
        sqlite3.Connection.close(connection)
    except sqlite3.Error:
        return


def forget(connection: sqlite3.Connection) -> None:
    """Keep a connection that a fork inherited from ever being closed: closing it would drop the parent's locks."""
    _inherited.append(connection)


_inherited: list[sqlite3.Connection] = []
