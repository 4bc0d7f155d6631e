"""The application of a run: handlers that say what they do, and use all that a context has. Its store is that of ``ONWARD_URL``."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec import Struct

from onward import JobContext, Onward, Periodic, RetryPolicy, TransientJobError, define_job
from tests.torture import cancelled, harmful, planted, waiting
from tests.torture.history import EVERY, LETTER, LETTERS, TICK
from tests.torture.notes import note, note_child
from tests.torture.written import Files, remove_of, write_of

LEASE = harmful.LEASE
POLL, SWEEP, GRACE = 0.2, 0.5, 1.0
LIMIT_OF_SLOW = 1.5
CANARY = "xkcd936battery"
"""A secret that handlers let slip in every way that is recognised: it must be stored nowhere but in a payload, and be logged nowhere."""
SLIPS = ("log-in failed: password={}", "no answer from https://user:{}@example.org/", "Authorization: Bearer {}", '{{"api_key": "{}"}}')
files = Files()


def plain(number: int, ctx: JobContext) -> None:
    note("started", ctx)
    time.sleep(0.002 * (number % 10))
    note("ended", ctx)


def slow(number: int, ctx: JobContext) -> None:
    """Under way for long enough that most faults meet some of them."""
    note("started", ctx)
    time.sleep(0.3 + number % 5 * (LIMIT_OF_SLOW - 0.3) / 4)
    note("ended", ctx)


async def awaited(number: int, ctx: JobContext) -> None:
    note("started", ctx)
    await asyncio.sleep(0.02 * (number % 10))
    note("ended", ctx)


def effect(number: int, ctx: JobContext) -> None:
    """Its row and its completion are one commit."""
    note("started", ctx)
    time.sleep(0.02 * (number % 10))
    with planted.transaction(ctx) as connection:
        connection.execute(f"INSERT INTO effects (job_id, fence) VALUES ('{ctx.job.id}', {int(ctx.job.fence)})")
        note("ended", ctx)


def parent(number: int, ctx: JobContext) -> None:
    """Two children come with its completion; half of the parents use a transaction as well."""
    note("started", ctx)
    if number % 2:
        _bear(number, ctx)
        note("ended", ctx)
        return
    with ctx.transaction() as connection:
        connection.execute(f"INSERT INTO effects (job_id, fence) VALUES ('{ctx.job.id}', {int(ctx.job.fence)})")
        _bear(number, ctx)
        note("ended", ctx)


def _bear(number: int, ctx: JobContext) -> None:
    for _ in range(2):
        note_child(ctx.enqueue(JOBS["child"], number), "child", ctx)
    if number % 3 == 0 and ctx.attempt == 1:
        raise TransientJobError("not at the first try")


def child(number: int, ctx: JobContext) -> None:
    plain(number, ctx)


def flaky(number: int, ctx: JobContext) -> None:
    """Fails at first, and is good at its second or third try."""
    note("started", ctx)
    if ctx.attempt <= 1 + number % 2:
        raise TransientJobError("not yet")
    note("ended", ctx)


def keyed(number: int, ctx: JobContext) -> None:
    note("started", ctx)
    time.sleep(0.05)
    note("ended", ctx)


def letter(number: int, ctx: JobContext) -> None:
    """What somebody acts on by the dozen."""
    plain(number, ctx)


def tick(number: int, ctx: JobContext) -> None:
    """What the clock enqueues."""
    plain(number, ctx)


def once(number: int, ctx: JobContext) -> None:
    """Has a single try; a third of them use it up."""
    note("started", ctx)
    if number % 3 == 0:
        raise RuntimeError("the only try failed")
    note("ended", ctx)


class Login(Struct):
    """The payload of ``indiscreet``."""

    number: int
    password: str = CANARY


def indiscreet(login: Login, ctx: JobContext) -> None:
    """Lets its secret slip at the first try."""
    note("started", ctx)
    if ctx.attempt == 1:
        raise TransientJobError(SLIPS[login.number % len(SLIPS)].format(login.password))
    note("ended", ctx)


def payload_of(name: str, number: int) -> Any:
    """What a job of this name is asked for with."""
    makers: dict[str, Callable[[int], Any]] = {"indiscreet": Login, "write": write_of, "remove": remove_of}
    return makers[name](number) if name in makers else number


# What is done to a run may cost tries, and must not cost a job.
OFTEN = RetryPolicy(max_attempts=50, backoff="fixed", base="0.2s", jitter=0)
RULES: dict[str, Any] = {"lease": LEASE, "history": "all"}
HANDLERS: tuple[Callable[..., Any], ...] = (
    *(plain, slow, awaited, effect, parent, child, flaky, keyed, indiscreet, files.write, files.remove),
    *(harmful.dies, harmful.forks, harmful.forks_inside, harmful.hoards, harmful.hogs),
    *cancelled.HANDLERS,
)
ALONE: tuple[Callable[..., Any], ...] = (harmful.leaves, harmful.starves, *cancelled.ALONE)
JOBS = {handler.__name__: define_job(handler.__name__, handler, retry=OFTEN, **RULES) for handler in HANDLERS}
JOBS |= {handler.__name__: define_job(handler.__name__, handler, retry=OFTEN, isolated=True, **RULES) for handler in ALONE}
JOBS |= {handler.__name__: define_job(handler.__name__, handler, retry=OFTEN, **RULES, **more) for handler, more in waiting.RULES.items()}
JOBS["once"] = define_job("once", once, retry=RetryPolicy(max_attempts=1), **RULES)
TWICE = RetryPolicy(max_attempts=2, base=timedelta(0))
JOBS[LETTER] = define_job(LETTER, letter, queue=LETTERS, retry=OFTEN, **RULES)
JOBS[TICK] = define_job(TICK, tick, retry=OFTEN, **RULES)
JOBS["pill"] = define_job("pill", harmful.pill, retry=TWICE, isolated=True, **RULES)

TICKING = Periodic(JOBS[TICK], every=EVERY, payload=0, catch_up="all", most_catch_up=1000)

app = planted.spoil(Onward(jobs=JOBS.values(), periodic=[TICKING], reconcile=[files])) if "ONWARD_URL" in os.environ else None
