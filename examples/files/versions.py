"""Which of two writes of one file is the later one.

Jobs may run in any order and at once, so the order is fixed when a write is accepted: it gets the next version of its path in the same
transaction. When a job is about to place its file, in the transaction that completes it, it does so only if nothing newer is there.
"""

from __future__ import annotations

from examples.files.database import Connection, execute

_ACCEPT = """
INSERT INTO file_versions (path, accepted) VALUES (:path, 1)
ON CONFLICT (path) DO UPDATE SET accepted = file_versions.accepted + 1
RETURNING accepted
"""
_NAME = "UPDATE file_versions SET accepted_job = :job_id WHERE path = :path"
_PLACE = """
INSERT INTO file_versions (path, accepted, placed) VALUES (:path, :version, :version)
ON CONFLICT (path) DO UPDATE SET placed = :version WHERE file_versions.placed < :version
RETURNING placed
"""
_UNPLACED = "SELECT accepted_job FROM file_versions WHERE path = :path AND accepted > placed"


def accept(connection: Connection, path: str) -> int:
    """Give the next version of a path. Whoever else accepts a write of this path waits for the end of this transaction."""
    version: int = execute(connection, _ACCEPT, path=path).fetchone()[0]
    return version


def name_job(connection: Connection, path: str, job_id: str) -> None:
    """Remember the job that carries the newest version."""
    execute(connection, _NAME, path=path, job_id=job_id)


def take_place(connection: Connection, path: str, version: int) -> bool:
    """Say whether this version may be placed, and record that it is. False when a newer one is on disk."""
    return execute(connection, _PLACE, path=path, version=version).fetchone() is not None


def newest_unplaced(connection: Connection, path: str) -> str | None:
    """The job with the newest accepted version, if that is not on disk."""
    row = execute(connection, _UNPLACED, path=path).fetchone()
    return row[0] if row else None
