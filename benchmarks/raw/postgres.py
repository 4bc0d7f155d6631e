"""The yardstick on Postgres: asyncpg, one statement that completes and claims, woken by a notification."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from benchmarks.raw.loop import serve

POLL = 5.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL, state smallint NOT NULL DEFAULT 0,
    priority int NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(), attempt int NOT NULL DEFAULT 0, task text NOT NULL,
    payload text NOT NULL, worker text, finished_at timestamptz);
CREATE INDEX IF NOT EXISTS ready ON jobs (queue, priority, run_at, id) WHERE state = 0"""
STORE = "INSERT INTO jobs (queue, task, payload) VALUES ('default', 'noop', $1) RETURNING id"
INSERT = f"WITH stored AS ({STORE}) SELECT pg_notify('jobs', '') FROM stored"
READY = """SELECT id FROM jobs WHERE queue = 'default' AND state = 0 AND run_at <= now()
    ORDER BY priority, run_at, id FOR UPDATE SKIP LOCKED LIMIT $1"""
CLAIM = f"""UPDATE jobs SET state = 1, attempt = attempt + 1, worker = $2 FROM ({READY}) AS ready
    WHERE jobs.id = ready.id RETURNING jobs.id, jobs.payload"""
TURN = f"WITH ended AS (UPDATE jobs SET state = 2, finished_at = now() WHERE id = ANY ($3) AND state = 1 AND worker = $2) {CLAIM}"
UNFINISHED = "SELECT count(*) FROM jobs WHERE state < 2 AND run_at < now() + interval '1 hour'"


async def connect(url: str) -> asyncpg.Connection[Any]:
    """Open the database, with its tables."""
    connection = await asyncpg.connect(url)
    await connection.execute(SCHEMA)
    return connection


async def enqueue_one(connection: asyncpg.Connection[Any], payload: str) -> None:
    """Store one job in a commit of its own, and tell the workers."""
    await connection.execute(INSERT, payload)


async def enqueue_all(connection: asyncpg.Connection[Any], payloads: Sequence[str]) -> None:
    """Store all in one commit, and tell the workers."""
    async with connection.transaction():
        records = [("default", "noop", payload) for payload in payloads]
        await connection.copy_records_to_table("jobs", columns=["queue", "task", "payload"], records=records)
        await connection.execute("SELECT pg_notify('jobs', '')")


async def work(url: str, handler: Callable[[Any], Awaitable[object]], batch: int) -> None:
    """Serve for ever."""
    connection, listener, news, worker = await connect(url), await connect(url), asyncio.Event(), str(os.getpid())
    await listener.add_listener("jobs", lambda *_: news.set())

    async def turn(ended: list[int], wanted: int) -> list[Any]:
        return await (connection.fetch(TURN, wanted, worker, ended) if ended else connection.fetch(CLAIM, wanted, worker))

    async def wait() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), POLL)
        news.clear()

    await serve(turn, wait, handler, batch)
