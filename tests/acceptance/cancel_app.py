"""The application of the tests of cancelled jobs: handlers of each kind that obey, that do not, and that are in a transaction."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onward import JobContext, Onward, PermanentJobError, Release, RetryPolicy, Snooze, define_job

LEASE = 2.0
TABLE = "CREATE TABLE IF NOT EXISTS effects (job_id TEXT)"


def _note(what: str, ctx: JobContext) -> None:
    """One line, whole or not at all, whoever else writes."""
    descriptor = os.open(os.path.join(os.environ["ACCEPTANCE_HOME"], "effects.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{what} {ctx.job.id} {ctx.job.fence} {os.getpid()}\n".encode())
    os.close(descriptor)


def _is_let_go() -> bool:
    return Path(os.environ["ACCEPTANCE_HOME"], "go").exists()


async def obeys_on_the_loop(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    await asyncio.sleep(3600)


async def swallows_it(number: int, ctx: JobContext) -> None:
    """As code does that catches whatever comes and goes on."""
    _note("start", ctx)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            _note("swallowed", ctx)


async def fails_when_cancelled(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        raise PermanentJobError("what it had begun could not be undone") from None


async def blocks_the_loop(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    time.sleep(3600)


def watches(number: int, ctx: JobContext) -> Release | None:
    _note("start", ctx)
    return Release() if ctx.wait_for_stop(3600) else None


def fails_when_told(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    ctx.wait_for_stop(3600)
    raise RuntimeError("stopped in the middle")


def snoozes_when_told(number: int, ctx: JobContext) -> Snooze:
    _note("start", ctx)
    ctx.wait_for_stop(3600)
    return Snooze("0s")


def ignores(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    time.sleep(3600)


def watches_apart(number: int, ctx: JobContext) -> Release | None:
    return watches(number, ctx)


async def obeys_apart(number: int, ctx: JobContext) -> None:
    await obeys_on_the_loop(number, ctx)


def ignores_apart(number: int, ctx: JobContext) -> None:
    ignores(number, ctx)


def holds_the_gil_apart(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    sum(range(10**12))


def in_its_transaction(number: int, ctx: JobContext) -> None:
    """Inside until it is let go: what comes meanwhile comes too late."""
    with ctx.transaction() as connection:
        connection.execute(f"INSERT INTO effects VALUES ('{ctx.job.id}')")
        _note("start", ctx)
        until = time.monotonic() + 4
        while not _is_let_go() and time.monotonic() < until:
            time.sleep(0.01)
    _note("committed", ctx)


def in_its_transaction_apart(number: int, ctx: JobContext) -> None:
    in_its_transaction(number, ctx)


def before_its_transaction(number: int, ctx: JobContext) -> None:
    """Told, and completes all the same."""
    _note("start", ctx)
    ctx.wait_for_stop(3600)
    with ctx.transaction() as connection:
        connection.execute(f"INSERT INTO effects VALUES ('{ctx.job.id}')")
    _note("committed", ctx)


def behind_its_transaction(number: int, ctx: JobContext) -> None:
    """Completed, and does not end."""
    with ctx.transaction() as connection:
        connection.execute(f"INSERT INTO effects VALUES ('{ctx.job.id}')")
    _note("start", ctx)
    time.sleep(3600)


def behind_its_transaction_apart(number: int, ctx: JobContext) -> None:
    behind_its_transaction(number, ctx)


def quick(number: int, ctx: JobContext) -> int:
    _note("start", ctx)
    time.sleep(0.002 * (number % 5))
    return number


async def quick_on_the_loop(number: int, ctx: JobContext) -> int:
    _note("start", ctx)
    await asyncio.sleep(0.002 * (number % 5))
    return number


def keeps_failing(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    raise RuntimeError("again")


def keeps_snoozing(number: int, ctx: JobContext) -> Snooze:
    _note("start", ctx)
    return Snooze(0.002 * (number % 5))


def quick_in_a_transaction(number: int, ctx: JobContext) -> None:
    _note("start", ctx)
    with ctx.transaction() as connection:
        connection.execute(f"INSERT INTO effects VALUES ('{ctx.job.id}')")


HANDLERS: tuple[Callable[..., Any], ...] = (
    *(obeys_on_the_loop, swallows_it, fails_when_cancelled, blocks_the_loop, watches, fails_when_told, snoozes_when_told, ignores),
    *(in_its_transaction, before_its_transaction, behind_its_transaction),
    *(quick, quick_on_the_loop, quick_in_a_transaction, keeps_failing, keeps_snoozing),
)
APART: tuple[Callable[..., Any], ...] = (
    *(watches_apart, obeys_apart, ignores_apart, holds_the_gil_apart, in_its_transaction_apart, behind_its_transaction_apart),
)
JOBS = {
    handler.__name__: define_job(
        handler.__name__,
        handler,
        isolated=handler in APART,
        lease=LEASE,
        retry=RetryPolicy(max_attempts=10_000, backoff="fixed", base="5ms"),
        history="all",
    )
    for handler in (*HANDLERS, *APART)
}

app = Onward(jobs=JOBS.values()) if "ONWARD_URL" in os.environ else None
