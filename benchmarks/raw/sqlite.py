"""The yardstick on SQLite: ten columns, an index on what is ready, WAL with ``synchronous=FULL``."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.raw.loop import serve

POLL = 0.005
SCHEMA = """
CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0,
    run_at REAL NOT NULL, attempt INTEGER NOT NULL DEFAULT 0, task TEXT NOT NULL, payload TEXT NOT NULL, worker TEXT, finished_at REAL);
CREATE INDEX ready ON jobs (queue, priority, run_at, id) WHERE state = 0"""
INSERT = "INSERT INTO jobs (queue, run_at, task, payload) VALUES ('default', ?, 'noop', ?)"
READY = "SELECT id FROM jobs WHERE queue = 'default' AND state = 0 AND run_at <= ? ORDER BY priority, run_at, id LIMIT ?"
CLAIM = f"UPDATE jobs SET state = 1, attempt = attempt + 1, worker = ? WHERE id IN ({READY}) RETURNING id, payload"
COMPLETE = "UPDATE jobs SET state = 2, finished_at = ? WHERE id IN (SELECT value FROM json_each(?)) AND state = 1 AND worker = ?"
UNFINISHED = "SELECT count(*) FROM jobs WHERE state < 2 AND run_at < 1e10"


def connect(url: str) -> sqlite3.Connection:
    """Open the file of a ``sqlite:///`` URL, with its tables."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=10, check_same_thread=False)
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchone():
        connection.executescript(SCHEMA)
    return connection


def enqueue_one(connection: sqlite3.Connection, payload: str) -> None:
    """Store one job in a commit of its own."""
    connection.execute(INSERT, (time.time(), payload))


def enqueue_all(connection: sqlite3.Connection, payloads: Sequence[str]) -> None:
    """Store all in one commit."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, [(time.time(), payload) for payload in payloads])
    connection.execute("COMMIT")


async def work(url: str, handler: Callable[[Any], Awaitable[object]], batch: int) -> None:
    """Serve for ever."""
    connection, worker, pool = connect(url), str(os.getpid()), ThreadPoolExecutor(1)
    seen = connection.execute("PRAGMA data_version").fetchone()

    def turn(ended: list[int], wanted: int) -> list[Any]:
        now = time.time()
        if not ended and not connection.execute(READY, (now, 1)).fetchone():
            return []
        connection.execute("BEGIN IMMEDIATE")
        if ended:
            connection.execute(COMPLETE, (now, json.dumps(ended), worker))
        claimed = connection.execute(CLAIM, (worker, now, wanted)).fetchall() if wanted else []
        return connection.execute("COMMIT") and claimed

    async def wait() -> None:
        nonlocal seen
        while (found := connection.execute("PRAGMA data_version").fetchone()) == seen:
            await asyncio.sleep(POLL)
        seen = found

    await serve(lambda ended, wanted: asyncio.get_running_loop().run_in_executor(pool, turn, ended, wanted), wait, handler, batch)
