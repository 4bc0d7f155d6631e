"""PgQueuer on Postgres, by asyncpg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.application import hit

STORE, DISTRIBUTION, JOBS = "postgres", "pgqueuer", 20_000
BATCH = 500
SETTING = f"asyncpg; the worker with batch_size={BATCH}, on uvloop as its command line runs it; durable tables"
KEEPS = "deletes the row after the run; its log has a row for every change"
UNFINISHED = "SELECT count(*) FROM pgqueuer"
ENTRYPOINT = "work"


async def connect(url: str) -> Queries:
    """Open a connection, and make the tables if need be."""
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    if not await queries.schema_is_installed():
        await queries.install()
    return queries


async def enqueue_one(queries: Queries, payload: dict[str, Any]) -> None:
    """Enqueue it."""
    await queries.enqueue(ENTRYPOINT, msgspec.json.encode(payload))


async def enqueue_all(queries: Queries, payloads: Sequence[dict[str, Any]]) -> None:
    """Enqueue all in one statement."""
    count = len(payloads)
    await queries.enqueue([ENTRYPOINT] * count, [msgspec.json.encode(payload) for payload in payloads], [0] * count)


def work(url: str) -> None:
    """Run it with a pool of connections."""
    uvloop.run(_serve(url))


async def _serve(url: str) -> None:
    worker = PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(url, min_size=2))

    @worker.entrypoint(ENTRYPOINT)
    async def handle(job: Job) -> None:
        payload = msgspec.json.decode(job.payload or b"")
        hit(payload["number"], payload["sent_at"])

    await worker.run(batch_size=BATCH)
