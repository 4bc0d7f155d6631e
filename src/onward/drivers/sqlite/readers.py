"""Connections that only read. They wait for no writer, so there may be several; a few are kept."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from onward.drivers.sqlite.connection import close_quietly, connect, forget
from onward.drivers.sqlite.tolerant import tolerantly
from onward.drivers.sqlite.vendor_errors import is_busy

T = TypeVar("T")
MOST_IDLE = 8


class Readers:
    """A pool of reading connections to one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._is_closed = False

    def read(self, work: Callable[[sqlite3.Cursor], T], deadline: float) -> T:
        """Run statements that only read. Raises what they raise, and ``StoreUnavailable`` when the file cannot be opened."""
        while True:
            connection = self._take(deadline)
            try:
                result = tolerantly(connection, work)
            except BaseException as error:
                close_quietly(connection)
                if not (isinstance(error, sqlite3.Error) and is_busy(error) and time.monotonic() < deadline):
                    raise
                time.sleep(0.001)
            else:
                self._give_back(connection)
                return result

    def _take(self, deadline: float) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return connect(self._path, deadline)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if len(self._idle) < MOST_IDLE and not self._is_closed:
            self._idle.append(connection)
        else:
            close_quietly(connection)

    def close(self) -> None:
        """Close what is not in use, now, and what is in use, when it is given back."""
        self._is_closed = True
        while self._idle:
            close_quietly(self._idle.pop())

    def forget(self) -> None:
        """In a forked child: leave them open for ever, since closing one would drop the parent's locks."""
        while self._idle:
            forget(self._idle.pop())
