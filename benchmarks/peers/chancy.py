"""Chancy on Postgres."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from chancy import Chancy, Job, Queue, Worker

from benchmarks.application import hit

STORE, DISTRIBUTION, JOBS = "postgres", "chancy", 20_000
CONCURRENCY = 100
SETTING = f"the async executor with concurrency={CONCURRENCY}, eager_polling=True, polling_interval=1; its default plugins"
KEEPS = "keeps the row for a day, as succeeded; writes once a second what has ended"
UNFINISHED = "SELECT count(*) FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying')"


async def handle(*, number: int, sent_at: int, **_: object) -> None:
    """The job, found by its dotted name."""
    hit(number, sent_at)


def _application(url: str) -> Chancy:
    return Chancy(url, log=logging.getLogger("chancy"))


def _job(payload: dict[str, Any]) -> Job:
    return Job.from_func(handle, kwargs=payload)


async def connect(url: str) -> Chancy:
    """Open a pool, and make the tables and the queue if need be."""
    chancy = _application(url)
    await chancy.migrate()
    queue = Queue("default", concurrency=CONCURRENCY, executor=Chancy.Executor.Async, eager_polling=True, polling_interval=1)
    await chancy.declare(queue)
    return chancy


async def enqueue_one(chancy: Chancy, payload: dict[str, Any]) -> None:
    """Push it."""
    await chancy.push(_job(payload))


async def enqueue_all(chancy: Chancy, payloads: Sequence[dict[str, Any]]) -> None:
    """Push all, in commits of a thousand."""
    async for _ in chancy.push_many([_job(payload) for payload in payloads]):
        pass


def work(url: str) -> None:
    """Run a worker."""
    asyncio.run(_serve(url))


async def _serve(url: str) -> None:
    async with _application(url) as chancy, Worker(chancy) as worker:
        await worker.wait_for_shutdown()
