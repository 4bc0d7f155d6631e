"""persist-queue: its queue with acknowledgements on SQLite. A queue without a worker, so the loop around it is ours."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from persistqueue import SQLiteAckQueue
from persistqueue.exceptions import Empty

from benchmarks.application import hit

STORE, DISTRIBUTION, JOBS = "sqlite", "persist-queue", 10_000
POLL = 0.005
SETTING = f"SQLiteAckQueue with synchronous=FULL, got in order, each behind the one before; looks every {POLL * 1000:.0f} ms when idle"
KEEPS = "keeps the row, as acknowledged; two processes may take the same job (ran_again)"
UNFINISHED = "SELECT count(*) FROM ack_queue_default WHERE status < 5"
FULL = 2


def _open(url: str, **options: Any) -> SQLiteAckQueue:
    path = Path(url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("PRAGMA synchronous").fetchone()[0] < FULL:
            raise RuntimeError("this build of SQLite does not wait for the disk by itself, and persist-queue has no setting that makes it")
    return SQLiteAckQueue(str(path.parent), db_file_name=path.name, **options)


async def connect(url: str) -> SQLiteAckQueue:
    """Open the file."""
    return _open(url)


async def enqueue_one(queue: SQLiteAckQueue, payload: dict[str, Any]) -> None:
    """Put it."""
    queue.put(payload)


async def enqueue_all(queue: SQLiteAckQueue, payloads: Sequence[dict[str, Any]]) -> None:
    """Put each: there is no call for many."""
    for payload in payloads:
        queue.put(payload)


def work(url: str) -> None:
    """Get, handle, acknowledge."""
    # Resuming would give back what another process has.
    queue = _open(url, auto_resume=False)
    last: int | None = None
    while True:
        try:
            item = queue.get(block=False, id=last, next_in_order=last is not None, raw=True)
        except Empty:
            time.sleep(POLL)
            continue
        last = item["pqid"]
        hit(item["data"]["number"], item["data"]["sent_at"])
        queue.ack(id=last)
