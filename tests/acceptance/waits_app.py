"""The application of the tests of breakers, limits and lines: each handler says when it begins and when it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from onward import Breaker, JobContext, Limit, Onward, RetryPolicy, TransientJobError, define_job

LEASE = 10.0
"""Long enough that a busy machine lets no lease run out: then a run ends with its handler, or with its process."""
THRESHOLD, PAUSE = 5, 2.0
AT_ONCE = 2
RATE, BURST = int(os.environ.get("WAITS_RATE", "40")), 10
LOG = "effects.log"


class Item(Struct):
    """``key`` is what the job shares; ``number`` its place among them."""

    key: str
    number: int = 0


class Call(Struct):
    """A call of a provider: ``connector`` and ``pair`` together have one breaker."""

    connector: str
    pair: int
    number: int = 0


def _home() -> Path:
    return Path(os.environ["ACCEPTANCE_HOME"])


def _note(what: str, key: str, number: int, context: JobContext) -> None:
    """One write of one short line to a file opened for appending is not torn, also with several processes."""
    line = f"{what} {key} {number} {context.job.id} {context.job.fence} {os.getpid()} {time.clock_gettime(time.CLOCK_MONOTONIC)}\n"
    descriptor = os.open(_home() / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@contextmanager
def _noted(key: str, number: int, context: JobContext) -> Iterator[None]:
    _note("start", key, number, context)
    try:
        yield
    except Exception:
        _note("failed", key, number, context)
        raise
    _note("end", key, number, context)


def call(asked: Call, context: JobContext) -> None:
    """Fails while the provider is away; a call of one that hangs comes back when it is told to."""
    with _noted(f"{asked.connector}-{asked.pair}", asked.number, context):
        while (_home() / f"{asked.connector}-{asked.pair}.hangs").exists():
            time.sleep(0.01)
        if (_home() / f"{asked.connector}-{asked.pair}.away").exists():
            raise TransientJobError("the provider is away")


def limited(item: Item, context: JobContext) -> None:
    """Those of a key that is held wait until it is let go."""
    with _noted(item.key, item.number, context):
        while (_home() / f"{item.key}.held").exists():
            time.sleep(0.01)
        time.sleep(0.01 + 0.01 * (item.number % 4))


def in_line(item: Item, context: JobContext) -> None:
    """A seventh is not good at its first try; the first of a line that is held waits until it is let go."""
    with _noted(item.key, item.number, context):
        while (_home() / f"{item.key}.held").exists():
            time.sleep(0.01)
        if item.number % 7 == 3 and context.attempt == 1:
            raise TransientJobError("not at the first try")


def paced(item: Item, context: JobContext) -> None:
    _note("start", item.key, item.number, context)


def plain(number: int) -> int:
    return number


SOON = RetryPolicy(max_attempts=20, backoff="fixed", base="0.05s", jitter=0)
ONCE = RetryPolicy(max_attempts=1)
provider: Breaker[Call] = Breaker(lambda asked: f"{asked.connector}-{asked.pair}", threshold=THRESHOLD, pause=PAUSE)
JOBS = {
    "call": define_job("call", call, lease=LEASE, retry=SOON, breaker=provider),
    "call once": define_job("call-once", call, lease=LEASE, retry=ONCE, breaker=provider),
    "limited": define_job(
        "limited", limited, lease=LEASE, retry=SOON, history="all", concurrency_key=lambda item: item.key, limit=Limit(concurrency=AT_ONCE)
    ),
    "in line": define_job("in-line", in_line, lease=LEASE, retry=SOON, serial_key=lambda item: item.key),
    "paced": define_job(
        "paced", paced, lease=LEASE, history="all", concurrency_key=lambda item: item.key, limit=Limit(rate=f"{RATE}/s", burst=BURST)
    ),
    "plain": define_job("plain", plain, lease=LEASE),
}

app = Onward(jobs=JOBS.values()) if "ONWARD_URL" in os.environ else None
