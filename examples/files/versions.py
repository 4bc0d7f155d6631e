"""Which of two writes of one file is the later one.

Jobs may run in any order and at once, so the order is fixed when a write is accepted: it gets the next version of its path in the same
transaction. When a job is about to place its file, in the transaction that completes it, it does so only if nothing newer is there.
"""

from __future__ import annotations

import sqlite3
from typing import Any

_ACCEPT = """
INSERT INTO file_versions (path, accepted) VALUES (?, 1)
ON CONFLICT (path) DO UPDATE SET accepted = accepted + 1
RETURNING accepted
"""
_NAME = "UPDATE file_versions SET accepted_job = ? WHERE path = ?"
_PLACE = """
INSERT INTO file_versions (path, accepted, placed) VALUES (:path, :version, :version)
ON CONFLICT (path) DO UPDATE SET placed = :version WHERE placed < :version
RETURNING placed
"""
_UNPLACED = "SELECT accepted_job FROM file_versions WHERE path = ? AND accepted > placed"


def accept(connection: sqlite3.Connection, path: str) -> int:
    """Give the next version of a path."""
    version: int = connection.execute(_ACCEPT, (path,)).fetchone()[0]
    return version


def name_job(connection: sqlite3.Connection, path: str, job_id: str) -> None:
    """Remember the job that carries the newest version."""
    connection.execute(_NAME, (job_id, path))


def take_place(connection: Any, path: str, version: int) -> bool:
    """Say whether this version may be placed, and record that it is. False when a newer one is on disk."""
    return connection.execute(_PLACE, {"path": path, "version": version}).fetchone() is not None


def newest_unplaced(connection: sqlite3.Connection, path: str) -> str | None:
    """The job with the newest accepted version, if that is not on disk."""
    row = connection.execute(_UNPLACED, (path,)).fetchone()
    return row[0] if row else None
