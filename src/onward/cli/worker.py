"""``onward worker``: a supervisor, and the processes that run the jobs."""

from __future__ import annotations

from typing import Any

import click

from onward.cli.option_words import option_words
from onward.cli.target import app_option, needed_application, target
from onward.cli.whole_number import WholeNumber


@click.command()
@click.option("--queues", metavar="NAMES", help="The queues to serve, separated by commas. Otherwise every queue.")
@click.option("--concurrency", type=WholeNumber(1, 10_000), help="How many jobs run at once in a process. [default: 16]")
@click.option("--processes", type=WholeNumber(1, 1000), help="How many processes. [default: 1]")
@click.option("--grace", metavar="DURATION", help="How long running jobs may go on after a stop signal. [default: 30s]")
@click.option("--poll", metavar="DURATION", help="How long an idle worker waits before it looks again. [default: 1s]")
@click.option("--sweep", metavar="DURATION", help="How often to take back jobs whose lease ran out. [default: 30s]")
@click.option("--drain", is_flag=True, help="Run all that is due, then end.")
@click.option("--max-jobs", type=WholeNumber(min=1), help="End each process after so many jobs.")
@click.option("--name", metavar="NAME", help="What the log calls this worker.")
@app_option
def command(drain: bool, max_jobs: int | None, name: str | None, **given: Any) -> int:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C: claim no more, let running jobs finish within the grace, give back the rest. A second Ctrl-C ends at once.
    Lifecycle events are written to stdout as JSON lines, log records to stderr.

    A log-in that is refused at the start, a database that is not there, or a file that is none, ends the command with exit code 3. A
    server that cannot be reached is waited for, unless --drain is given; a log-in that is refused later is tried again.
    """
    from onward.cli.supervise import Supervised, become_supervisor, supervise
    from onward.settings import Settings

    app = needed_application()
    with option_words():
        settings = Settings(given)
    options = {
        "queues": settings.queues,
        "concurrency": settings.concurrency,
        "poll": settings.poll.total_seconds(),
        "sweep_every": settings.sweep.total_seconds(),
        "prune_every": settings.prune.total_seconds(),
        "grace": settings.grace.total_seconds(),
        "drain": drain,
        "max_jobs": max_jobs,
        "name": name,
    }
    supervised = Supervised(app, options, settings.processes, settings.grace.total_seconds(), settings.concurrency)
    if target().owns_process:
        become_supervisor(supervised)
    return supervise(supervised)
