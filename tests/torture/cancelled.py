"""What is cancelled while it runs: handlers that take their time, and obey or do not; and the request, with what was answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from onward import JobContext, Onward, Release, TransientJobError
from onward.errors import IllegalTransition, OnwardError
from tests.torture.notes import note

LASTS = 1.5
"""Seconds at most, where nobody asks for the end: a sender may die before it does."""
DEAF_FOR = 8.0
"""Seconds: longer than a cancelled handler is waited for."""
TYPES = (
    *("obedient", "watchful", "failing") * 4,
    *("plain", "awaited", "effect", "parent", "flaky", "slow"),
    *("deaf", "deaf_apart"),
)
"""What is asked for and cancelled soon after, as often as it stands here."""
LONG = ("obedient", "watchful", "failing", "effect", "deaf", "deaf_apart")
"""What is likely to run still when it is cancelled."""
REFUSED = "refused"
"""The answer where the job had ended."""


async def obedient(number: int, ctx: JobContext) -> None:
    note("started", ctx)
    await asyncio.sleep(LASTS * (number % 5) / 4)
    note("ended", ctx)


def watchful(number: int, ctx: JobContext) -> Release | None:
    note("started", ctx)
    if ctx.wait_for_stop(LASTS * (number % 5) / 4):
        return Release()
    note("ended", ctx)
    return None


def failing(number: int, ctx: JobContext) -> None:
    """Does not look, and would be tried again."""
    note("started", ctx)
    time.sleep(LASTS * (number % 5) / 8)
    if ctx.attempt == 1:
        raise TransientJobError("not at the first try")
    note("ended", ctx)


def deaf(number: int, ctx: JobContext) -> None:
    """Is given up, and a process of its own is killed."""
    note("started", ctx)
    time.sleep(DEAF_FOR)
    note("ended", ctx)


def deaf_apart(number: int, ctx: JobContext) -> None:
    deaf(number, ctx)


HANDLERS: tuple[Callable[..., Any], ...] = (obedient, watchful, failing, deaf)
ALONE: tuple[Callable[..., Any], ...] = (deaf_apart,)


def ask(app: Onward, say: Callable[..., None], job_id: str) -> None:
    """Ask for the end of a job, and write what was answered; nothing where nobody knows whether the request was stored."""
    say("asked", "cancel", job=job_id)
    try:
        job = app.cancel(job_id)
    except IllegalTransition:
        say("answered", "cancel", job=job_id, detail=REFUSED)
    except OnwardError:
        return
    else:
        say("answered", "cancel", job=job_id, fence=job.fence, detail=str(job.status))
