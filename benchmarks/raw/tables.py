"""The yardstick for many jobs in one call: the same rows into the same tables, a job and its key each, by the quickest way there is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg

COLUMNS = ("id", "type", "queue", "priority", "status", "payload", "payload_hash", "scheduled_at", "max_attempts")
MORE = ("idempotency_key", "scope", "created_at", "updated_at")
KEYS = ("owner", "type", "key", "job_id", "payload_hash", "expires_at")
HASH = "0" * 64


def _rows(payloads: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    for number, payload in enumerate(payloads):
        yield f"{number:026d}", "async-0", "default", 0, "queued", payload, HASH, now, 1, f"key-{number}", "active", now, now


def into_sqlite(url: str, payloads: Sequence[str]) -> None:
    """One transaction of two ``executemany``."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.executescript("PRAGMA synchronous = FULL; BEGIN IMMEDIATE")
    rows = list(_rows(payloads))
    marks = ", ".join("?" * len((*COLUMNS, *MORE)))
    connection.executemany(f"INSERT INTO onward_jobs ({', '.join((*COLUMNS, *MORE))}) VALUES ({marks})", rows)
    connection.executemany(
        f"INSERT INTO onward_keys ({', '.join(KEYS)}) VALUES ('', ?, ?, ?, ?, NULL)", [(r[1], r[9], r[0], HASH) for r in rows]
    )
    connection.execute("COMMIT")


def into_postgres(url: str, payloads: Sequence[str]) -> None:
    """One transaction of two ``COPY``."""
    with psycopg.connect(url) as connection:
        rows = list(_rows(payloads))
        with connection.cursor().copy(f"COPY onward.jobs ({', '.join((*COLUMNS, *MORE))}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
        with connection.cursor().copy(f"COPY onward.keys ({', '.join(KEYS)}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(("", row[1], row[9], row[0], HASH, None))
