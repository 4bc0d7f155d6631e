"""``onward worker``: a supervisor, and the processes that run the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onward.cli.target import app_option, needed_application
from onward.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onward.driver import Store
    from onward.turn import Swept
    from onward.worker.child import ChildPipes


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
    from onward.settings import Settings
    from onward.telemetry.log import configure_logging
    from onward.worker.supervisor import Supervisor

    app = needed_application()
    settings = Settings(given)
    configure_logging()
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
    return Supervisor(
        _command_line(app, options),
        processes=settings.processes,
        grace=settings.grace.total_seconds(),
        concurrency=settings.concurrency,
        open_store=_store_at,
        on_swept=_tell,
    ).run(is_last=True)


def _command_line(app: str, options: dict[str, Any]) -> Callable[[ChildPipes], Sequence[str]]:
    """How a worker process is started: this command again, in its hidden form."""
    import sys

    from msgspec.json import encode

    def command_line(pipes: ChildPipes) -> Sequence[str]:
        texts = [encode(one).decode() for one in (options, pipes)]
        return [sys.executable, "-m", "onward", "-A", app, "worker_process", *texts]

    return command_line


def _tell(swept: Swept) -> None:
    from onward.events import Events
    from onward.telemetry.log import LifecycleLog
    from onward.worker.reports import Reports

    Reports(Events([LifecycleLog()]), None).swept(swept)


def _store_at(url: str) -> Store:
    from onward.clock import SystemClock
    from onward.drivers import connect

    return connect(url, clock=SystemClock())
