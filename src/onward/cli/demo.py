"""``onward demo``: a database of its own, a few jobs, a worker, and a count that must be right."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from onward.cli.output import put_json, say
from onward.cli.tables import put_table
from onward.cli.target import json_option
from onward.status import Status

if TYPE_CHECKING:
    from onward.app import Onward

EXPECTED = {("greet", Status.COMPLETED): 5, ("flaky", Status.COMPLETED): 2, ("doomed", Status.DEAD_LETTER): 1}
"""How many jobs of each type end how."""
PATIENCE = 30
"""Seconds; the jobs take less than one."""


@click.command()
@json_option
def command(as_json: bool) -> int:
    """Run sample jobs in a database of their own.

    Some succeed, some fail once and are retried, one can never succeed. Ends with exit code 0 only if the store counts what was
    expected. Nothing is left behind.
    """
    from onward.cli.job_view import job_json, paint_status
    from onward.inspection import JobFilter

    with TemporaryDirectory(prefix="onward-demo-") as folder, _quiet_logs():
        database = Path(folder) / "demo.db"
        say(f"Eight jobs in {database}, four at a time.")
        with _application(f"sqlite:///{database}") as app:
            _run_all(app)
            jobs = list(reversed(app.store.find(JobFilter(), limit=50)))
            attempts = {job.id: app.history(job.id) for job in jobs}
            counts = {pair: app.store.count(JobFilter(types=(pair[0],), statuses=(pair[1],))) for pair in EXPECTED}
            if as_json:
                for job in jobs:
                    put_json(job_json(job))
            else:
                put_table(
                    ("id", "type", "status", "attempts", "errors", "result"),
                    [
                        (
                            job.id,
                            job.type,
                            job.status.value,
                            job.attempts,
                            "; ".join(dict.fromkeys((one.error or "").partition("\n")[0] for one in attempts[job.id] if one.error)) or "-",
                            job.result or "-",
                        )
                        for job in jobs
                    ],
                    {"status": paint_status},
                )
    seen = Counter((job.type, job.status) for job in jobs)
    if counts == EXPECTED == dict(seen):
        say(f"{len(jobs)} jobs, as expected: nothing was lost, nothing ran twice after it had succeeded.")
        return 0
    say(f"Error: expected {_describe(EXPECTED)}; the store counts {_describe(counts)}.")
    return 1


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """The failures are part of the show."""
    logger = logging.getLogger("onward")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _run_all(app: Onward) -> None:
    """Run a worker until every job has ended; a retry is not due at once, so draining would end too early."""
    from threading import Event as Bell

    from onward.events import Event

    ended, all_ended = set(), Bell()

    def note(event: Event) -> None:
        if event.event in ("completed", "dead_lettered", "cancelled"):
            ended.add(event.job_id)
        if len(ended) == sum(EXPECTED.values()):
            all_ended.set()

    app.events.subscribe(note)
    worker = app.worker(concurrency=4, poll="100ms")
    worker.start()
    all_ended.wait(PATIENCE)
    worker.stop()


def _application(url: str) -> Onward:
    from onward.app import Onward
    from onward.context import JobContext
    from onward.definition import define_job
    from onward.errors import PermanentJobError
    from onward.retry import RetryPolicy

    def greet(name: str) -> str:
        return f"hello {name}"

    def flaky(name: str, ctx: JobContext) -> str:
        if ctx.attempt == 1:
            raise ConnectionError("the first try always fails")
        return f"{name} on try {ctx.attempt}"

    def doomed(name: str) -> None:
        raise PermanentJobError(f"{name} cannot be done, ever")

    quick = RetryPolicy(3, backoff="fixed", base="200ms")
    jobs = {one.__name__: define_job(one.__name__, one, payload=str, retry=quick) for one in (greet, flaky, doomed)}
    app = Onward(url, jobs=jobs.values())
    app.enqueue_many(jobs["greet"].new_job(name) for name in ("Ada", "Grace", "Edsger", "Barbara", "Donald"))
    app.enqueue_many(jobs["flaky"].new_job(name) for name in ("upload", "download"))
    app.enqueue(jobs["doomed"], "perpetual motion")
    return app


def _describe(counts: dict[tuple[str, Status], int]) -> str:
    return ", ".join(f"{number} {name} {status.value}" for (name, status), number in counts.items())
