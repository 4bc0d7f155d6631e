"""Rows whose ``scheduled_at`` is no instant, which SQLite stores as readily as any text."""

from __future__ import annotations

from datetime import datetime

from onward.drivers.sql.rows import read_jobs, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Statement, as_json

MISDATED_PER_LANE = 100


def set_aside_misdated(now: datetime) -> Operation[None]:
    """Dead-letter waiting rows whose ``scheduled_at`` is no instant, so that they could never be due."""
    queues = [row[0] for row in (yield Statement("queues")) if isinstance(row[0], str)]
    for queue, priority, _ in (yield Statement("lanes", {"queues": as_json(queues)})):
        rows = yield Statement("misdated", {"queue": queue, "priority": priority, "limit": MISDATED_PER_LANE})
        yield from set_aside(read_jobs(rows)[1], write_instant(now))
