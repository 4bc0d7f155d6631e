"""Many rows of an enqueue by ``COPY``: quicker than the statements that read them from JSON, and without words about conflicts.

A conflict therefore undoes it, and the statement does it again; that is rare, since who asks has looked for the ids and keys before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

import msgspec
import psycopg

from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.sql.rows import read_instant, write_instant
from onward.drivers.sql.statements import Many, Row, Statement

PIECE = 500
"""Rows that are sent in one piece, while the server stores those before."""
SOON = timedelta(minutes=1)
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"})
_OWN = ("id", "payload", "payload_hash", "idempotency_key")
_SHARED = (
    *("type", "queue", "priority", "scheduled_at", "expires_at", "max_attempts", "isolated"),
    *("scope", "concurrency_key", "serial_key", "breaker", "owner", "metadata"),
)
"""Columns that mostly say the same in all rows of a request."""


def copied(connection: psycopg.Connection[Any], text: StatementText, wanted: Statement | Many) -> list[Row] | None:
    """What the statement would have given; None if it has to be run itself, and nothing was changed.

    For a connection in a transaction.
    """
    if isinstance(wanted, Many):
        jobs = wanted.parameters
        return [] if _try(connection, text, lambda: _copy_jobs(connection, text, jobs), len(jobs)) else None
    if wanted.name != "take_keys":
        return None
    keys = msgspec.json.decode(wanted.parameters["rows"])
    return [(key[3],) for key in keys] if _try(connection, text, lambda: _copy_keys(connection, text, keys), len(keys)) else None


def _try(connection: psycopg.Connection[Any], text: StatementText, work: Callable[[], int], expected: int) -> bool:
    cursor = psycopg.Cursor(connection)
    cursor.execute(text["inner_savepoint"])
    try:
        is_done = work() == expected  # a trigger may leave rows out, and the statement says which
    except (psycopg.errors.UniqueViolation, psycopg.errors.FeatureNotSupported):  # the latter under row-level security
        is_done = False
    if not is_done:
        cursor.execute(text["undo_inner_savepoint"])
    cursor.execute(text["release_inner_savepoint"])
    return is_done


def _copy_jobs(connection: psycopg.Connection[Any], text: StatementText, rows: list[dict[str, Any]]) -> int:
    known = _Known()
    columns = (*_OWN, *_SHARED, "status", "created_at", "updated_at")
    lines = (
        "\t".join([*[_field(row[name]) for name in _OWN], *[known[row[name]] for name in _SHARED], "queued", row["now"], row["now"]])
        for row in rows
    )
    stored = _copy(connection, text, "jobs", columns, lines)
    if text.notifies:
        until = write_instant(read_instant(rows[0]["now"]) + SOON)
        for queue in sorted({row["queue"] for row in rows if row["scheduled_at"] < until}):
            psycopg.Cursor(connection).execute(text["notify"], {"channel": text.schema, "payload": queue[:255]})
    return stored


def _copy_keys(connection: psycopg.Connection[Any], text: StatementText, rows: list[list[Any]]) -> int:
    known = _Known()
    lines = (
        "\t".join([known[owner], known[type_], _field(key), job_id, payload_hash, known[expires_at]])
        for owner, type_, key, job_id, payload_hash, expires_at in rows
    )
    return _copy(connection, text, "keys", ("owner", "type", "key", "job_id", "payload_hash", "expires_at"), lines)


def _copy(connection: psycopg.Connection[Any], text: StatementText, table: str, columns: Iterable[str], lines: Iterator[str]) -> int:
    cursor = psycopg.Cursor(connection)
    with cursor.copy(f'COPY "{text.schema}".{table} ({", ".join(columns)}) FROM STDIN'.encode()) as copy:
        while piece := list(islice(lines, PIECE)):
            copy.write("\n".join(piece) + "\n")
    return cursor.rowcount


class _Known(dict[Any, str]):
    """The fields that many rows share, as ``COPY`` reads them."""

    def __missing__(self, value: Any) -> str:
        self[value] = field = _field(value)
        return field


def _field(value: Any) -> str:
    if value is None:
        return "\\N"
    text = str(value)
    if text.isprintable():
        return text.replace("\\", "\\\\") if "\\" in text else text
    return text.translate(_ESCAPES)
