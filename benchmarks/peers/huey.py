"""huey on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from huey import SqliteHuey

from benchmarks.application import hit

STORE, DISTRIBUTION, JOBS = "sqlite", "huey", 10_000
POLL = 0.005
SETTING = f"SqliteHuey with fsync=True; one thread a process, which looks every {POLL * 1000:.0f} ms when idle"
KEEPS = "deletes the row before the run: a job whose worker dies is lost"
UNFINISHED = "SELECT count(*) FROM task"


def _handle(number: int, sent_at: int, **_: object) -> None:
    hit(number, sent_at)


async def connect(url: str) -> Any:
    """The task, which is also the way to its queue."""
    return _task(url)


def _task(url: str) -> Any:
    return SqliteHuey("benchmark", filename=url.removeprefix("sqlite:///"), fsync=True).task()(_handle)


async def enqueue_one(task: Any, payload: dict[str, Any]) -> None:
    """Call it."""
    task(**payload)


async def enqueue_all(task: Any, payloads: Sequence[dict[str, Any]]) -> None:
    """Call it for each: there is no call for many."""
    for payload in payloads:
        task(**payload)


def work(url: str) -> None:
    """Run a consumer."""
    _task(url).huey.create_consumer(workers=1, initial_delay=POLL, max_delay=POLL).run()
