"""Handlers that do at their first claim what no handler should: to their process, to its memory, or to its copy. Later ones do nothing."""

from __future__ import annotations

import ctypes
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from onward import JobContext
from tests.torture.notes import note

MEGABYTE = 1 << 20
LEASE = 2.0
PROGRAM_LASTS = 40
"""Seconds that the program of ``leaves`` goes on, if nobody ends it."""
HOARD = 600
"""Megabytes that ``hoards`` takes: more than the group that its process is in may have."""


def pill(number: int, ctx: JobContext) -> None:
    """Kills the process that it has to itself, at every claim."""
    note("started", ctx)
    os.kill(os.getpid(), signal.SIGKILL)


def dies(number: int, ctx: JobContext) -> None:
    """Ends its process, or tries to: each number in another way."""
    note("started", ctx)
    if ctx.job.fence == 1:
        WAYS_TO_DIE[number % len(WAYS_TO_DIE)]()
    note("ended", ctx)


def forks(number: int, ctx: JobContext) -> None:
    """The copy of the worker comes back from the handler as well, or ends at once, or goes on for a while."""
    note("started", ctx)
    if os.fork() == 0:
        if number % 3 == 0:
            return
        time.sleep(number % 3 - 1)
        os._exit(0)
    note("ended", ctx)


def forks_inside(number: int, ctx: JobContext) -> None:
    """The same with the transaction open: a copy that comes back must not commit, nor harm what its parent commits."""
    note("started", ctx)
    is_copy = False
    with ctx.transaction() as connection:
        connection.execute(f"INSERT INTO effects (job_id, fence) VALUES ('{ctx.job.id}', {int(ctx.job.fence)})")
        if ctx.job.fence == 1:
            is_copy = os.fork() == 0
        if is_copy and number % 3:
            time.sleep(number % 3 - 1)
            os._exit(0)
        if not is_copy:
            note("ended", ctx)


def leaves(number: int, ctx: JobContext) -> None:
    """Starts a program, and is killed with it."""
    note("started", ctx)
    if ctx.job.fence == 1:
        subprocess.run(program_of(number), check=False)
    note("ended", ctx)


def program_of(number: int) -> list[str]:
    """The command line of a program that a ``leaves`` starts, by which it is found."""
    return ["sleep", f"{PROGRAM_LASTS}.{number:09}"]


def starves(number: int, ctx: JobContext) -> None:
    """May have next to no memory more, and asks for it. Its process must tell of the error with what there is."""
    note("started", ctx)
    if ctx.job.fence == 1:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + 16 * MEGABYTE, hard))
        hoard = []
        while True:
            hoard.append(bytes(MEGABYTE))
    note("ended", ctx)


def hoards(number: int, ctx: JobContext) -> None:
    """Takes and touches memory until the kernel kills whoever has the most of it."""
    note("started", ctx)
    if ctx.job.fence == 1:
        hoard = [b"\1" * MEGABYTE for _ in range(HOARD)]
        time.sleep(0.1)
        del hoard
    note("ended", ctx)


def hogs(number: int, ctx: JobContext) -> None:
    """Keeps every other thread of its process from running for longer than a lease: a regular expression never lets go of the GIL."""
    note("started", ctx)
    if ctx.job.fence == 1:
        length = 18
        seconds = _backtrack(length)
        # Each letter more takes twice as long.
        _backtrack(length + math.ceil(math.log2(max(1.3 * LEASE / seconds, 1))))
    note("ended", ctx)


def _backtrack(length: int) -> float:
    began = time.perf_counter()
    re.match(r"(a+)+$", "a" * length + "b")
    return time.perf_counter() - began


def _address_space() -> int:
    """The bytes that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _recurse() -> None:
    _recurse()


def _interrupt() -> None:
    raise KeyboardInterrupt


WAYS_TO_DIE: tuple[Callable[[], object], ...] = (
    lambda: os._exit(3),
    os.abort,
    lambda: ctypes.string_at(0),
    lambda: sys.exit(4),
    _interrupt,
    _recurse,
    lambda: os._exit(0),
)
