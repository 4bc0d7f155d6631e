"""A peer that needs no library: the plainest queue, in one table."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.application import hit

STORE, DISTRIBUTION, JOBS = "sqlite", "onward", 20_000
SETTING = "none"
KEEPS = "deletes the row after the run"
UNFINISHED = "SELECT count(*) FROM waiting"


async def connect(url: str) -> sqlite3.Connection:
    return _open(url)


def _open(url: str) -> sqlite3.Connection:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
    connection.execute("CREATE TABLE IF NOT EXISTS waiting (id INTEGER PRIMARY KEY, payload TEXT)")
    return connection


async def enqueue_one(connection: sqlite3.Connection, payload: dict[str, Any]) -> None:
    await enqueue_all(connection, [payload])


async def enqueue_all(connection: sqlite3.Connection, payloads: Sequence[dict[str, Any]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO waiting (payload) VALUES (?)", [(json.dumps(payload),) for payload in payloads])
    connection.execute("COMMIT")


def work(url: str) -> None:
    connection = _open(url)
    while True:
        for number, text in connection.execute("SELECT id, payload FROM waiting ORDER BY id LIMIT 100").fetchall():
            payload = json.loads(text)
            hit(payload["number"], payload["sent_at"])
            connection.execute("DELETE FROM waiting WHERE id = ?", (number,))
        time.sleep(0.005)
