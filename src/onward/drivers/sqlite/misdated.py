"""Rows whose ``scheduled_at`` is no instant, or whose queue is no text, which SQLite stores as readily as any other value."""

from __future__ import annotations

from datetime import datetime

from onward.drivers.sql.rows import UnreadableRow, read_jobs, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Statement, as_json

MISDATED_PER_LANE = 100


def set_aside_misdated(now: datetime) -> Operation[None]:
    """Dead-letter waiting rows that could never be due, or never be asked for."""
    found = [row[0] for row in (yield Statement("waiting_queues"))]
    queues = [queue for queue in found if isinstance(queue, str)]
    for queue in found:
        if isinstance(queue, bytes):
            rows = yield Statement("misqueued", {"queue": queue, "is_no_text": not _is_text(queue), "limit": MISDATED_PER_LANE})
            yield from set_aside([UnreadableRow(row[0], "its queue is no text") for row in rows], write_instant(now))
    for queue, priority, _ in (yield Statement("lanes", {"queues": as_json(queues)})):
        rows = yield Statement("misdated", {"queue": queue, "priority": priority, "limit": MISDATED_PER_LANE})
        yield from set_aside(read_jobs(rows)[1], write_instant(now))


def _is_text(queue: bytes) -> bool:
    try:
        queue.decode()
    except UnicodeDecodeError:
        return False
    return True
