"""The application of the process tests: handlers that end well, late, never, or with their process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta

from onward import Event, JobContext, Onward, RetryPolicy, define_job


@dataclass
class Work:
    number: int = 0


def note(text: str) -> None:
    """One line, whole or not at all, whoever else writes."""
    descriptor = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text} {os.getpid()}\n".encode())
    os.close(descriptor)


_are_two = False


def quick(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")


def together(payload: Work, ctx: JobContext) -> None:
    """Goes on once two processes have begun, so that neither can do all the work before the other is there."""
    global _are_two
    note(f"start {payload.number}")
    until = time.monotonic() + 30
    while not _are_two and time.monotonic() < until:
        with open(os.environ["EFFECTS"]) as effects:
            _are_two = len({line.split()[-1] for line in effects if line.startswith("start")}) > 1
        time.sleep(0 if _are_two else 0.01)


def first_try_waits(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")
    if ctx.job.fence == 1:
        time.sleep(3600)


def sixth_claim_ends(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")
    if ctx.job.fence < 6:
        time.sleep(3600)


def ends_when_told(payload: Work, ctx: JobContext) -> None:
    """The first try ends once the file beside the effects is there: a stopped process cannot see it."""
    note(f"start {payload.number}")
    while ctx.job.fence == 1 and not os.path.exists(os.environ["EFFECTS"] + ".go"):
        time.sleep(0.01)
    note(f"end {ctx.job.fence}")


def never(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")
    time.sleep(3600)


def holds_the_gil(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")
    sum(range(10**12))


async def in_three_steps(payload: Work, ctx: JobContext) -> None:
    for step in range(3):
        note(f"step {step}")
        await asyncio.sleep(0.3)


async def cleans_up(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")
    try:
        await asyncio.sleep(3600)
    finally:
        note("cleaned up")


def kills_its_process(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")
    os.kill(os.getpid(), signal.SIGKILL)


def leaves(payload: Work, ctx: JobContext) -> None:
    note(f"start {payload.number}")
    if ctx.job.fence == 1:
        os._exit(0)


def moves_to_another_group(payload: Work, ctx: JobContext) -> None:
    """Out of reach of a signal to its own group, if it may leave that, and deaf to every other."""
    with contextlib.suppress(PermissionError):  # the leader of a session may not
        os.setpgid(0, os.getpgid(os.getppid()))
    note(f"start {payload.number}")
    sum(range(10**12))


def forks(payload: Work, ctx: JobContext) -> None:
    """The child comes back from the handler as well, into a copy of the worker."""
    if os.fork() == 0:
        note("child")
        return
    note(f"start {payload.number}")


def leaves_a_process(payload: Work, ctx: JobContext) -> None:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    note(f"left {started.pid}")
    note(f"start {payload.number}")


def tell(event: Event) -> None:
    note(f"told {event.event} {event.job_id} {event.error!r}")
    raise RuntimeError("nobody wants to hear it")


HANDLERS = (
    moves_to_another_group,
    forks,
    leaves_a_process,
    quick,
    together,
    first_try_waits,
    sixth_claim_ends,
    ends_when_told,
    never,
    holds_the_gil,
    in_three_steps,
    cleans_up,
    kills_its_process,
    leaves,
)
LEASE = 2
AT_ONCE = RetryPolicy(base=timedelta(0))
JOBS = {
    handler.__name__: define_job(handler.__name__, handler, lease=LEASE, retry=AT_ONCE if handler is kills_its_process else None)
    for handler in HANDLERS
}

app = Onward(jobs=JOBS.values()) if "ONWARD_URL" in os.environ else None
telling_app = Onward(jobs=JOBS.values(), on={"dead_lettered": tell, "reclaimed": tell}) if "ONWARD_URL" in os.environ else None
