"""The application that acceptance tests run in real processes. Where it stores is told by the environment.

Each handler appends one line to the effects log, which lives outside the store, so that the two can be compared.
"""

from __future__ import annotations

import os
import time

from onward import JobContext, Onward, define_job

HOME = os.environ["ACCEPTANCE_HOME"]
EFFECTS = os.path.join(HOME, "effects.log")


def log_effect(what: str, context: JobContext) -> None:
    """One write of one short line to a file opened for appending is not torn, also with several processes."""
    line = f"{what} {context.job.id} {context.attempt} {os.getpid()} {time.monotonic():.6f}\n"
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def note(number: int, context: JobContext) -> None:
    log_effect("start", context)


note_job = define_job("note", note, key=str)
app = Onward(f"sqlite:///{HOME}/jobs.db", jobs=[note_job])
