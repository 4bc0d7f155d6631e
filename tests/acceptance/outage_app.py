"""The application of the outage tests: a store in Postgres, handlers that leave a trace, and one that ends when it is told to."""

from __future__ import annotations

import os
import time
from pathlib import Path

from onward import JobContext, Onward, Retention, RetryPolicy, define_job


def log_effect(what: str, context: JobContext) -> None:
    """One write of one short line to a file opened for appending is not torn, also with several processes.

    It names the worker's process, whose isolated jobs have processes of their own.
    """
    worker = str(context.worker_id).split(":")[1]
    descriptor = os.open(os.path.join(os.environ["ACCEPTANCE_HOME"], "effects.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{what} {context.job.id} {context.job.fence} {worker}\n".encode())
    finally:
        os.close(descriptor)


def _work(number: int) -> None:
    """Mostly quick; some are under way for long enough that an outage begins or ends meanwhile."""
    time.sleep(1.0 if number % 20 == 0 else 0.02)


def plain(number: int, context: JobContext) -> None:
    log_effect("start", context)
    _work(number)


def write(number: int, context: JobContext) -> None:
    """Its effect and its completion are one commit."""
    log_effect("start", context)
    _work(number)
    with context.transaction() as connection:
        connection.execute("INSERT INTO effects (job_id, fence) VALUES (%s, %s)", [context.job.id, context.job.fence])


def until_told(number: int, context: JobContext) -> None:
    log_effect("start", context)
    while not Path(os.environ["ACCEPTANCE_HOME"], "go").exists():
        time.sleep(0.01)


def write_when_told(number: int, context: JobContext) -> None:
    until_told(number, context)
    with context.transaction() as connection:
        connection.execute("INSERT INTO effects (job_id, fence) VALUES (%s, %s)", [context.job.id, context.job.fence])


LEASE = 5
# An outage may cost tries, and must not cost a job.
OFTEN = RetryPolicy(max_attempts=100, backoff="fixed", base="0.5s")
JOBS = {handler.__name__: define_job(handler.__name__, handler, lease=LEASE, retry=OFTEN) for handler in (plain, write, until_told)}
JOBS |= {
    # Nothing is renewed in the first seconds.
    "until_told_at_leisure": define_job("until_told_at_leisure", until_told, lease=3 * LEASE, retry=OFTEN),
    "write_when_told": define_job("write_when_told", write_when_told, lease=3 * LEASE, retry=OFTEN),
}

app = Onward(jobs=JOBS.values(), retention=Retention(completed="1d")) if "ONWARD_URL" in os.environ else None
