"""The application of the tests with isolated processes: handlers that end their process, hold it, or use all that a context has."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from onward import JobContext, Onward, RetryPolicy, Snooze, define_job
from tests.worker.process_app import Work, note


def tells_where(payload: Work, ctx: JobContext) -> int:
    note(f"start {payload.number}")
    return os.getppid()


async def tells_where_awaited(payload: Work, ctx: JobContext) -> int:
    await asyncio.sleep(0)
    return tells_where(payload, ctx)


def uses_its_context(payload: Work, ctx: JobContext) -> dict[str, Any]:
    ctx.progress({"at": 1})
    ctx.record(processed=3, failed=1)
    ctx.enqueue(JOBS["quick"], Work(7), key="child", scope="2h")
    ctx.enqueue(JOBS["quick"], Work(8), delay="1h")
    return {"owner": ctx.job.owner, "attempt": ctx.attempt, "worker": ctx.worker_id}


def reports_and_waits(payload: Work, ctx: JobContext) -> str:
    ctx.progress("half")
    note("start")
    return "stopped" if ctx.wait_for_stop(60) else "waited"


async def waits_awaited(payload: Work, ctx: JobContext) -> None:
    note("start")
    try:
        await asyncio.sleep(3600)
    finally:
        note("cleaned up")


def writes_in_its_transaction(payload: Work, ctx: JobContext) -> None:
    with ctx.transaction() as connection:
        connection.execute("INSERT INTO effects VALUES (?)", (payload.number,))
        ctx.enqueue(JOBS["quick"], Work(9))
    if payload.number == 2:
        os._exit(3)


def fails(payload: Work, ctx: JobContext) -> None:
    raise ValueError("not today")


def snoozes(payload: Work, ctx: JobContext) -> Snooze | None:
    return Snooze("0s") if ctx.job.snoozes == 0 else None


def quick(payload: Work, ctx: JobContext) -> None:
    note(f"quick {payload.number}")


def is_killed(payload: Work, ctx: JobContext) -> None:
    note("start")
    os.kill(os.getpid(), signal.SIGKILL)


def breaks_memory(payload: Work, ctx: JobContext) -> None:
    note("start")
    ctypes.string_at(0)


def leaves(payload: Work, ctx: JobContext) -> None:
    note("start")
    os._exit(3)


def aborts(payload: Work, ctx: JobContext) -> None:
    note("start")
    os.abort()


def exits(payload: Work, ctx: JobContext) -> None:
    note("start")
    sys.exit(4)


def closes_everything(payload: Work, ctx: JobContext) -> None:
    note("start")
    os.closerange(3, 256)


def holds_the_gil(payload: Work, ctx: JobContext) -> None:
    note("start")
    sum(range(10**12))


def leaves_a_child_and_dies(payload: Work, ctx: JobContext) -> None:
    """What it forked keeps the connection to the worker open."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
    note(f"left {child}")
    os._exit(1)


def starts_a_program_and_holds(payload: Work, ctx: JobContext) -> None:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    note(f"left {started.pid}")
    note("start")
    sum(range(10**12))


def is_ended_by_a_signal_without_a_name(payload: Work, ctx: JobContext) -> None:
    note("start")
    os.kill(os.getpid(), 40)


def writes_into_the_connection(payload: Work, ctx: JobContext) -> None:
    """As a handler does that takes any open descriptor for its own."""
    note("start")
    # The connection has the number that it has in the worker's process, which may have many files open.
    for descriptor in sorted(int(name) for name in os.listdir("/dev/fd") if int(name) > 2):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
            connection.send(b"garbage\n")
    time.sleep(3600)


def takes_two_seconds(payload: Work, ctx: JobContext) -> None:
    note("start")
    time.sleep(2)


def leaves_a_thread(payload: Work, ctx: JobContext) -> None:
    threading.Timer(1, os._exit, [7]).start()


def leaves_an_alarm(payload: Work, ctx: JobContext) -> None:
    signal.alarm(1)


def tells_its_folder(payload: Work, ctx: JobContext) -> str:
    return os.getcwd()


HANDLERS: tuple[Callable[..., Any], ...] = (
    tells_where,
    tells_where_awaited,
    uses_its_context,
    reports_and_waits,
    waits_awaited,
    writes_in_its_transaction,
    fails,
    snoozes,
    quick,
    is_killed,
    breaks_memory,
    leaves,
    aborts,
    exits,
    closes_everything,
    holds_the_gil,
    leaves_a_child_and_dies,
    is_ended_by_a_signal_without_a_name,
    writes_into_the_connection,
    takes_two_seconds,
    leaves_a_thread,
    leaves_an_alarm,
    tells_its_folder,
    starts_a_program_and_holds,
)
LIMITED = {"holds_the_gil", "starts_a_program_and_holds"}
JOBS = {
    handler.__name__: define_job(
        handler.__name__,
        handler,
        isolated=handler.__name__ != "quick",
        retry=RetryPolicy(max_attempts=2, base=timedelta(0)),
        timeout=1 if handler.__name__ in LIMITED else None,
        history="all",
    )
    for handler in HANDLERS
}


def make_app() -> Onward:
    """The application over the store of ``ONWARD_URL``, where effects have a table beside the jobs."""
    made = Onward(jobs=JOBS.values())
    with sqlite3.connect(made.store.url.removeprefix("sqlite:///")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS effects (number INTEGER)")
    connection.close()
    return made


app = make_app() if "ONWARD_URL" in os.environ else None
