"""The supervisor's own program: ``onward worker`` becomes it once it has read its options, and keeps its process id.

What reads a command line takes 5 MB that a process which does nothing but wait need not hold. So nothing is imported here but what the
supervisor needs, and neither click nor msgspec.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from onward.telemetry.records import configure_logging
from onward.worker.supervisor import HANDLED, Supervisor

if TYPE_CHECKING:
    from onward.driver import Store
    from onward.turn import Swept
    from onward.worker.child import ChildPipes

VARIABLE = "_ONWARD_SUPERVISED"
"""In the environment of the program: the fields of ``Supervised``."""


class Supervised(NamedTuple):
    """What is supervised: ``app`` is ``module:attribute``, ``options`` are a worker's, ``grace`` is in seconds."""

    app: str
    options: dict[str, Any]
    processes: int
    grace: float
    concurrency: int


def become_supervisor(supervised: Supervised) -> NoReturn:
    """Put the supervisor's program in the place of this one. Signals wait until it can act on them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        command = [sys.executable, "-m", "onward", *sys.argv[1:]]  # what a list of processes shows is what was typed
        os.execve(sys.executable, command, {**os.environ, VARIABLE: json.dumps(supervised)})
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def main() -> NoReturn:
    """The program."""
    sys.exit(supervise(Supervised(*json.loads(os.environ.pop(VARIABLE)))))


def supervise(supervised: Supervised) -> int:
    """Supervise until the end. Gives the exit code. For the main thread."""
    configure_logging()
    return Supervisor(
        _command_line(supervised.app, supervised.options),
        processes=supervised.processes,
        grace=supervised.grace,
        concurrency=supervised.concurrency,
        open_store=_store_at,
        on_swept=_tell,
    ).run(is_last=True)


def _command_line(app: str, options: dict[str, Any]) -> Callable[[ChildPipes], Sequence[str]]:
    """How a worker process is started: the command ``onward``, in a hidden form."""

    def command_line(pipes: ChildPipes) -> Sequence[str]:
        return [sys.executable, "-m", "onward", "-A", app, "worker_process", json.dumps(options), json.dumps(pipes)]

    return command_line


def _tell(swept: Swept) -> list[bytes]:
    """Write it to the log, and give the events for the application's subscribers, which only a worker process has."""
    from onward.clock import SystemClock
    from onward.events import Event, Events
    from onward.telemetry.log import LifecycleLog, line_of
    from onward.worker.reports import Reports

    events: list[Event] = []
    Reports(Events([LifecycleLog(), events.append]), None).swept(swept)
    at = SystemClock().now().isoformat()
    return [line_of(event, at) for event in events]


def _store_at(url: str) -> Store:
    from onward.clock import SystemClock
    from onward.drivers import connect

    return connect(url, clock=SystemClock())
