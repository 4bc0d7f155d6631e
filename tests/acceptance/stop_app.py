"""The application of the tests of stops and of a machine's sleep: handlers that end when they are told to, or never."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

from onward import JobContext, Onward, define_job

LEASE = 1.0


def _note(what: str, context: JobContext) -> None:
    """One write of one short line to a file opened for appending is not torn, also with several processes."""
    descriptor = os.open(os.path.join(os.environ["ACCEPTANCE_HOME"], "effects.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{what} {context.job.id} {context.job.fence}\n".encode())
    os.close(descriptor)


def _is_told() -> bool:
    return Path(os.environ["ACCEPTANCE_HOME"], "go").exists()


def in_a_thread(number: int, context: JobContext) -> None:
    _note("start", context)
    while not _is_told():
        time.sleep(0.01)
    _note("end", context)


async def on_the_loop(number: int, context: JobContext) -> None:
    _note("start", context)
    while not _is_told():
        await asyncio.sleep(0.01)
    _note("end", context)


def isolated(number: int, context: JobContext) -> None:
    in_a_thread(number, context)


def blocked(number: int, context: JobContext) -> None:
    """A call that nothing interrupts."""
    _note("start", context)
    time.sleep(3600)


async def blocks_the_loop(number: int, context: JobContext) -> None:
    """A blocking call where none belongs."""
    _note("start", context)
    time.sleep(3600)


def blocked_alone(number: int, context: JobContext) -> None:
    blocked(number, context)


def holds_the_gil(number: int, context: JobContext) -> None:
    """A regular expression that takes for ever lets no other thread of the process run."""
    _note("start", context)
    re.fullmatch("(a+)+b", "a" * 60)


HANDLERS = (in_a_thread, on_the_loop, isolated, blocked, blocks_the_loop, blocked_alone, holds_the_gil)
ALONE = (isolated, blocked_alone)
JOBS = {handler.__name__: define_job(handler.__name__, handler, lease=LEASE, isolated=handler in ALONE) for handler in HANDLERS}

app = Onward(jobs=JOBS.values()) if "ONWARD_URL" in os.environ else None
