"""How a transaction ends, and what may be said of it when the disk fails in the middle."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from onward.drivers.sqlite.connection import raw
from onward.drivers.sqlite.vendor_errors import FULL, code_of, is_busy, translate
from onward.errors import OutcomeUnknown


def commit(connection: sqlite3.Connection, ids: Callable[[], tuple[str, ...]], deadline: float, path: str) -> None:
    """Commit. Raises ``OutcomeUnknown`` naming ``ids`` when the disk failed in the middle of it; the connection is of no use then."""
    while True:
        try:
            raw(connection, "COMMIT")
            return
        except sqlite3.Error as error:
            if is_busy(error) and time.monotonic() < deadline:
                time.sleep(0.001)
                continue
            roll_back(connection)
            if is_busy(error) or code_of(error) == FULL:
                # No frame that ends a transaction was written, so nothing of it is stored.
                raise translate(error, path) from error
            raise OutcomeUnknown(
                f"the commit to {path} failed ({error}), so the change may or may not be stored: repeat it with the same id or key",
                job_ids=ids(),
            ) from error


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back. A connection that cannot even do that says so by ``in_transaction``."""
    try:
        if connection.in_transaction:
            raw(connection, "ROLLBACK")
    except sqlite3.Error:
        return
