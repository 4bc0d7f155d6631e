"""One part of a measurement, in a fresh process: ``python -m benchmarks.role onward one --count 4000``. Prints one line of JSON.

The store is that of ``BENCHMARK_URL``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.application import JOBS, Work, encoded, raw_handler
from onward.turn import Demand

URL = "BENCHMARK_URL"
WARM_UP = 50
BULK = 10_000
"""Jobs in one call."""
LEAST_SECONDS = 2.0
"""How long a role of single requests goes on, unless it is given another time."""


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.role")
    parser.add_argument("subject", choices=("raw", "onward"))
    parser.add_argument("role", choices=("one", "threads", "awaiting", "bulk", "tables", "fill", "ping", "claims", "worker"))
    parser.add_argument("--job", default="async-0", choices=JOBS)
    parser.add_argument("--count", type=int, default=0, help="jobs, for bulk, fill and ping")
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=LEAST_SECONDS)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two pings")
    parser.add_argument("--keyed", action="store_true", help="each job has a key")
    given = parser.parse_args()
    sender: Any = _raw_sender(os.environ[URL]) if given.subject == "raw" else OnwardSender(os.environ[URL], given)
    if given.role == "worker":
        asyncio.run(_raw_work(given))
        return 0
    print(json.dumps(sender.measure(given)), flush=True)
    return 0


async def _raw_work(given: argparse.Namespace) -> None:
    from benchmarks.raw import postgres, sqlite

    raw = sqlite if os.environ[URL].startswith("sqlite:") else postgres
    await raw.work(os.environ[URL], raw_handler(int(given.job.partition("-")[2])), given.batch)


def quantiles(latencies: Sequence[float], took: float) -> dict[str, float]:
    """Requests a second, and microseconds that one took at the median, at 95 and 99 of 100, and at the worst."""
    ordered = sorted(latencies)

    def at(share: float) -> float:
        return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e6, 1)

    return {"rate": len(ordered) / took, "p50_us": at(0.5), "p95_us": at(0.95), "p99_us": at(0.99), "max_us": round(ordered[-1] * 1e6, 1)}


def _raw_sender(url: str) -> Any:
    return RawSqlite(url) if url.startswith("sqlite:") else RawPostgres(url)


class Sender:
    """Asks for jobs, one after the other unless a role says otherwise."""

    def measure(self, given: argparse.Namespace) -> dict[str, float]:
        """Do what a role says, and give its figures."""
        role = "bulk" if given.role == "fill" else given.role
        figures: dict[str, float] = getattr(self, role)(given)
        return figures

    def enqueue(self, work: Work) -> object:
        raise NotImplementedError

    def enqueue_all(self, works: Sequence[Work]) -> object:
        raise NotImplementedError

    def one(self, given: argparse.Namespace) -> dict[str, float]:
        """One by one, each in a commit of its own, for some seconds."""
        for number in range(WARM_UP):
            self.enqueue(Work(number))
        return quantiles(*_repeat(lambda number: self.enqueue(Work(number)), given.seconds))

    def threads(self, given: argparse.Namespace) -> dict[str, float]:
        """The same in many threads at once."""
        for number in range(WARM_UP):
            self.enqueue(Work(number))
        began = time.perf_counter()
        with ThreadPoolExecutor(given.callers) as pool:
            each = [pool.submit(_repeat, lambda number: self.enqueue(Work(number)), given.seconds) for _ in range(given.callers)]
            latencies = [latency for one in each for latency in one.result()[0]]
        return quantiles(latencies, time.perf_counter() - began)

    def awaiting(self, given: argparse.Namespace) -> dict[str, float]:
        raise NotImplementedError

    def bulk(self, given: argparse.Namespace) -> dict[str, float]:
        """Many at once."""
        works = [Work(number) for number in range(given.count)]
        if given.role == "bulk":
            self.enqueue_all(works[:1])
        began = time.perf_counter()
        for first in range(0, len(works), BULK):
            self.enqueue_all(works[first : first + BULK])
        return {"rate": len(works) / (time.perf_counter() - began)}

    def ping(self, given: argparse.Namespace) -> dict[str, float]:
        """One now and then, each with the instant at which it was asked for."""
        for number in range(given.count):
            self.enqueue(Work(number, time.monotonic_ns()))
            time.sleep(given.pause)
        return {}


def _repeat(request: Any, seconds: float) -> tuple[list[float], float]:
    clock, latencies = time.perf_counter, []
    began = last = clock()
    while last - began < seconds:
        request(len(latencies))
        now = clock()
        latencies.append(now - last)
        last = now
    return latencies, last - began


class RawSqlite(Sender):
    """As quick as SQLite takes them."""

    def __init__(self, url: str) -> None:
        from benchmarks.raw import sqlite

        self._raw, self._connection = sqlite, sqlite.connect(url)

    def enqueue(self, work: Work) -> object:
        return self._raw.enqueue_one(self._connection, encoded(work))

    def enqueue_all(self, works: Sequence[Work]) -> object:
        return self._raw.enqueue_all(self._connection, [encoded(work) for work in works])


class RawPostgres(Sender):
    """As quick as asyncpg brings them to Postgres. All of a role runs in one call of the loop."""

    def __init__(self, url: str) -> None:
        from benchmarks.raw import postgres

        self._raw, self._url = postgres, url

    def measure(self, given: argparse.Namespace) -> dict[str, float]:
        return asyncio.run(self._measure(given))

    async def _measure(self, given: argparse.Namespace) -> dict[str, float]:
        connection = await self._raw.connect(self._url)
        clock = time.perf_counter
        if given.role in ("bulk", "fill"):
            payloads = [encoded(Work(number)) for number in range(given.count)]
            began = clock()
            for first in range(0, len(payloads), BULK):
                await self._raw.enqueue_all(connection, payloads[first : first + BULK])
            return {"rate": len(payloads) / (clock() - began)}
        if given.role == "ping":
            for number in range(given.count):
                await self._raw.enqueue_one(connection, encoded(Work(number, time.monotonic_ns())))
                await asyncio.sleep(given.pause)
            return {}
        for number in range(WARM_UP):
            await self._raw.enqueue_one(connection, encoded(Work(number)))
        latencies: list[float] = []
        began = last = clock()
        while last - began < given.seconds:
            await self._raw.enqueue_one(connection, encoded(Work(len(latencies))))
            now = clock()
            latencies.append(now - last)
            last = now
        return quantiles(latencies, last - began)


class OnwardSender(Sender):
    """As an application asks."""

    def __init__(self, url: str, given: argparse.Namespace) -> None:
        from onward import Onward

        self._app = Onward(url, jobs=JOBS.values(), migrate=True)
        self._app.store.open()
        self._job = JOBS[given.job]
        self._is_keyed = given.keyed
        self._keys = f"{os.getpid()}-{time.monotonic_ns()}"

    def _options(self, work: Work) -> dict[str, Any]:
        return {"key": f"{self._keys}-{work.number}"} if self._is_keyed else {}

    def enqueue(self, work: Work) -> object:
        return self._app.enqueue(self._job, work, **self._options(work))

    def enqueue_all(self, works: Sequence[Work]) -> object:
        return self._app.enqueue_many([self._job.new_job(work, **self._options(work)) for work in works])

    def tables(self, given: argparse.Namespace) -> dict[str, float]:
        """What the database takes when the same rows are written past us."""
        from benchmarks.raw import tables

        url = os.environ[URL]
        write = tables.into_sqlite if url.startswith("sqlite:") else tables.into_postgres
        self._app.enqueue(self._job, Work(0))
        began = time.perf_counter()
        write(url, [encoded(Work(number)) for number in range(given.count)])
        return {"rate": given.count / (time.perf_counter() - began)}

    def claims(self, given: argparse.Namespace) -> dict[str, float]:
        """Ten jobs at a time, as a worker with ten free slots takes them."""
        demand = Demand(lease_owner="benchmark:1:claims", slots=10, types=self._app.definitions.leases())
        clock, latencies = time.perf_counter, []
        began = last = clock()
        for _ in range(given.count):
            self._app.store.turn(demand=demand)
            now = clock()
            latencies.append(now - last)
            last = now
        return quantiles(latencies, last - began)

    def awaiting(self, given: argparse.Namespace) -> dict[str, float]:
        """Many callers on one event loop."""
        return asyncio.run(self._await(given))

    async def _await(self, given: argparse.Namespace) -> dict[str, float]:
        clock = time.perf_counter
        for number in range(WARM_UP):
            await self._app.aenqueue(self._job, Work(number))
        latencies: list[float] = []
        began = clock()

        async def call() -> None:
            last = clock()
            while last - began < given.seconds:
                await self._app.aenqueue(self._job, Work(len(latencies)))
                now = clock()
                latencies.append(now - last)
                last = now

        async with asyncio.TaskGroup() as group:
            for _ in range(given.callers):
                group.create_task(call())
        return quantiles(latencies, clock() - began)


if __name__ == "__main__":
    sys.exit(main())
