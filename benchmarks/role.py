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
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from benchmarks.application import ASIDE, JOBS, Work, encoded, raw_handler
from benchmarks.subjects import ONWARD, RAW, is_sqlite, module_of, peer, yardstick
from onward.turn import Demand

URL = "BENCHMARK_URL"
WARM_UP = 50
BULK = 10_000
"""Jobs in one call."""
LEAST_SECONDS = 2.0
"""How long a role of single requests goes on, unless it is given another time."""
BEGINS = "begins"
"""A line of its own before the figures, by which another process hears that a role is warm."""
ROLES = (
    *("one", "producer", "threads", "awaiting", "bulk", "tables", "fill", "ping"),
    *("claims", "sweeps", "looks", "cancel", "prune", "worker"),
)
CLAIMER = "benchmark:1:claims"
"""In whose name jobs are claimed that nobody runs."""


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.role")
    parser.add_argument("subject", help="onward, raw, or a peer")
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--job", default="async-0", choices=JOBS)
    parser.add_argument("--count", type=int, default=0, help="jobs, for bulk, fill and ping; for cancel, after how many it is stopped once")
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=LEAST_SECONDS)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two pings")
    parser.add_argument("--keyed", action="store_true", help="each job has a key")
    given = parser.parse_args()
    url = os.environ[URL]
    if given.role == "worker":
        _work(url, given)
    else:
        print(json.dumps(_sender(url, given).measure(given)), flush=True)
    return 0


def _work(url: str, given: argparse.Namespace) -> None:
    if given.subject == RAW:
        asyncio.run(yardstick(url).work(url, raw_handler(int(given.job.partition("-")[2])), given.batch))
    else:
        peer(given.subject).work(url)


def _sender(url: str, given: argparse.Namespace) -> Sender:
    if given.subject == ONWARD:
        return OnwardSender(url, given)
    if given.subject == RAW and is_sqlite(url):
        return RawSqlite(url)
    return AwaitedSender(url, module_of(given.subject, url), encoded if given.subject == RAW else vars)


def quantiles(latencies: Sequence[float], took: float) -> dict[str, float]:
    """Requests a second, and microseconds that one took at the median, at 95 and 99 of 100, and at the worst."""
    ordered = sorted(latencies)

    def at(share: float) -> float:
        return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e6, 1)

    return {"rate": len(ordered) / took, "p50_us": at(0.5), "p95_us": at(0.95), "p99_us": at(0.99), "max_us": round(ordered[-1] * 1e6, 1)}


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
        print(BEGINS, flush=True)
        return quantiles(*_repeat(lambda number: self.enqueue(Work(number)), given.seconds))

    def producer(self, given: argparse.Namespace) -> dict[str, float]:
        """The same, whatever an enqueue raises: that is counted, and the first of each kind is told on standard error."""
        errors: Counter[str] = Counter()

        def ask(number: int) -> None:
            try:
                self.enqueue(Work(number))
            except Exception as error:  # noqa: BLE001 - what it is counts
                kind = type(error).__name__
                errors[kind] += 1
                if errors[kind] == 1:
                    print(f"{kind}: {error}", file=sys.stderr, flush=True)

        for number in range(WARM_UP):
            ask(number)
        print(BEGINS, flush=True)
        latencies, took = _repeat(ask, given.seconds)
        return {**quantiles(latencies, took), "enqueued": WARM_UP + len(latencies) - errors.total(), "errors": errors.total()}

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


class AwaitedSender(Sender):
    """As quick as a yardstick or a peer takes them. All of a role runs in one call of the loop. ``written`` makes the payload."""

    def __init__(self, url: str, subject: ModuleType, written: Callable[[Work], Any]) -> None:
        self._url, self._subject, self._written = url, subject, written

    def measure(self, given: argparse.Namespace) -> dict[str, float]:
        return asyncio.run(self._measure(given))

    async def _measure(self, given: argparse.Namespace) -> dict[str, float]:
        connection = await self._subject.connect(self._url)
        enqueue, written, clock = self._subject.enqueue_one, self._written, time.perf_counter
        if given.role in ("bulk", "fill"):
            payloads = [written(Work(number)) for number in range(given.count)]
            began = clock()
            for first in range(0, len(payloads), BULK):
                await self._subject.enqueue_all(connection, payloads[first : first + BULK])
            return {"rate": len(payloads) / (clock() - began)}
        if given.role == "ping":
            for number in range(given.count):
                await enqueue(connection, written(Work(number, time.monotonic_ns())))
                await asyncio.sleep(given.pause)
            return {}
        for number in range(WARM_UP):
            await enqueue(connection, written(Work(number)))
        latencies: list[float] = []
        began = last = clock()
        while last - began < given.seconds:
            await enqueue(connection, written(Work(len(latencies))))
            now = clock()
            latencies.append(now - last)
            last = now
        return quantiles(latencies, last - began)


def _milliseconds(acts: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """How long each takes, the median and the longest."""
    found: dict[str, float] = {}
    for name, act in acts.items():
        act()
        times = []
        for _ in range(count):
            began = time.perf_counter()
            act()
            times.append((time.perf_counter() - began) * 1e3)
        found |= {f"{name}_p50_ms": sorted(times)[len(times) // 2], f"{name}_max_ms": max(times)}
    return found


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
        options: dict[str, Any] = {"key": f"{self._keys}-{work.number}"} if self._is_keyed else {}
        return options | {"delay": "1h"} if self._job.name == ASIDE else options

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

    def cancel(self, given: argparse.Namespace) -> dict[str, float]:
        """All that waits aside, stopped once half-way and then asked for again."""
        print(BEGINS, flush=True)
        began = time.perf_counter()
        first = self._app.bulk("cancel", queue=ASIDE, on_progress=lambda result: result.done < given.count)
        rest = self._app.bulk("cancel", queue=ASIDE)
        took, done = time.perf_counter() - began, first.done + rest.done
        return {"rate": done / took, "matched": first.matched, "done": done, "recorded": sum(one.done for one in self._app.actions())}

    def prune(self, given: argparse.Namespace) -> dict[str, float]:
        """One round, as a worker's. ``p95_us`` is of how long others have to wait for a portion."""
        from onward.pruning import Due, Gone, Keeping
        from onward.worker.pruner import Pruner

        store, portions = self._app.store, []
        delete = store.delete_finished

        def noted(due: Due, *, relaxed: bool = False) -> Gone:
            portions.append(delete(due, relaxed=relaxed))
            return portions[-1]

        store.delete_finished = noted  # type: ignore[method-assign]
        interval = float("inf")
        pruner = Pruner(store, Keeping(self._app.retention), interval=interval)
        print(BEGINS, flush=True)
        began = time.perf_counter()
        while (pause := pruner.tick()) != interval:
            time.sleep(pause)
        took = time.perf_counter() - began
        held = quantiles([one.held for one in portions] or [0.0], took)
        return held | {"rate": sum(one.count for one in portions) / took, "portions": float(len(portions))}

    def claims(self, given: argparse.Namespace) -> dict[str, float]:
        """Ten jobs at a time, as a worker with ten free slots takes them."""
        demand = Demand(lease_owner=CLAIMER, slots=10, types=self._app.definitions.leases())
        clock, latencies, claimed = time.perf_counter, [], 0
        began = last = clock()
        for _ in range(given.count):
            claimed += len(self._app.store.turn(demand=demand).claims)
            now = clock()
            latencies.append(now - last)
            last = now
        return {**quantiles(latencies, last - began), "claimed": claimed}

    def sweeps(self, given: argparse.Namespace) -> dict[str, float]:
        """As a worker sweeps that knows all types."""
        types, constraints = self._app.definitions.leases(), self._app.definitions.constraints()
        return _milliseconds({"sweep": lambda: self._app.store.sweep(types, constraints=constraints)}, given.count)

    def looks(self, given: argparse.Namespace) -> dict[str, float]:
        """As `onward stats now` and a scraper look."""
        store = self._app.store
        looks: dict[str, Callable[[], object]] = {"backlog": store.backlog, "flows": self._app.metrics.look, "totals": store.totals}
        return _milliseconds(looks, given.count)

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
