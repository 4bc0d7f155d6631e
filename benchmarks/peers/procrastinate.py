"""Procrastinate on Postgres, by psycopg."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from procrastinate import App, PsycopgConnector

from benchmarks.application import hit

STORE, DISTRIBUTION, JOBS = "postgres", "procrastinate", 5_000
CONCURRENCY = 20
SETTING = f"PsycopgConnector; the worker with concurrency={CONCURRENCY} and a connection for each"
KEEPS = "keeps the row, as succeeded; a trigger adds a row for every change"
UNFINISHED = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


def _task(url: str, connections: int) -> Any:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=connections, max_size=connections + 1))

    @app.task(name="work")
    async def handle(number: int, sent_at: int, **_: object) -> None:
        hit(number, sent_at)

    return handle


async def connect(url: str) -> Any:
    """The task, whose application is open. Makes the tables if need be."""
    task = _task(url, 1)
    app = task.blueprint
    await app.open_async()
    found = await app.connector.execute_query_one_async("SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS made")
    if not found["made"]:
        await app.schema_manager.apply_schema_async()
    return task


async def enqueue_one(task: Any, payload: dict[str, Any]) -> None:
    """Defer it."""
    await task.defer_async(**payload)


async def enqueue_all(task: Any, payloads: Sequence[dict[str, Any]]) -> None:
    """Defer all in one statement."""
    await task.batch_defer_async(*payloads)


def work(url: str) -> None:
    """Run a worker."""
    asyncio.run(_serve(url))


async def _serve(url: str) -> None:
    app = _task(url, CONCURRENCY + 2).blueprint
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)
