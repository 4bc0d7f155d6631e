"""The application with a few jobs more, for the demo alone: one that fails first, one that takes long, one that kills its process."""

from __future__ import annotations

import os
import signal

from msgspec import Struct

from examples.files.app import app
from examples.files.handlers import files
from examples.files.home import HOME, LEASE
from onward import JobContext, RetryPolicy, job
from onward.files import CreateFile

__all__ = ["STARTED", "Note", "app", "fetch_note", "poison", "slow_note"]

SHORT = RetryPolicy(max_attempts=3, backoff="fixed", base="300ms", jitter=0)
STARTED = HOME / "started"
"""Marks of what has happened once: for the slow job, the id of the process that runs it."""


class Note(Struct, frozen=True):
    """Something to write below ``notes/``."""

    name: str


@job("fetch_note", lease=LEASE, retry=SHORT)
def fetch_note(payload: Note, ctx: JobContext) -> None:
    """Fail once, as a network does; then queue the file, in the commit that completes this job."""
    mark = STARTED / f"{payload.name}.failed"
    if not mark.exists():
        mark.touch()
        raise ConnectionError("the first try always fails")
    ctx.enqueue(files.create, CreateFile(f"notes/{payload.name}.txt", f"{payload.name}, fetched at the second try\n"))


@job("slow_note", lease=LEASE, retry=SHORT)
def slow_note(payload: Note, ctx: JobContext) -> None:
    """Tell which process runs this, and wait to be killed. Whoever takes over finds the mark and goes on."""
    mark = STARTED / payload.name
    if not mark.exists():
        mark.with_suffix(".new").write_text(str(os.getpid()))
        mark.with_suffix(".new").rename(mark)
        ctx.wait_for_stop(30)
        return
    ctx.enqueue(files.create, CreateFile(f"notes/{payload.name}.txt", f"{payload.name}, taken over\n"))


@job("poison", lease=LEASE, retry=RetryPolicy(max_attempts=2, backoff="fixed", base="300ms"))
def poison(payload: Note) -> None:
    """Kill the process that runs this, every time."""
    os.kill(os.getpid(), signal.SIGKILL)


STARTED.mkdir(exist_ok=True)
app.add(fetch_note, slow_note, poison)
