"""The command-line worker: ``supervise`` in the parent, and what each of its children runs (``python -m onward.worker_process``).

Parent and child agree on one ``Terms``, given to the child as JSON in its only argument.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import select
import signal
import sys
import threading
from types import FrameType
from typing import Any

import msgspec
from msgspec import Struct

logger = logging.getLogger("onward.worker")

PR_SET_PDEATHSIG = 1
QUIT_AT_ONCE = 130


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """What ``onward worker`` can be told of each process; durations in seconds. As in ``onward.worker.worker.Worker``."""

    queues: tuple[str, ...] = ()
    concurrency: int = 16
    poll: float = 1.0
    sweep_every: float = 30.0
    prune_every: float = 600.0
    grace: float | None = 30.0
    name: str | None = None
    max_jobs: int | None = None
    drain: bool = False


class Terms(Struct, frozen=True, kw_only=True):
    """What a child is started with."""

    app: str
    options: WorkerOptions
    nonce: str
    started: int
    """Descriptor of the map of started jobs."""
    lifeline: int
    """Descriptor that reads its end when the supervisor is gone."""
    report: int
    """Descriptor that takes a line of JSON when the child is ready, and one at its end."""


# -- the parent ------------------------------------------------------------------------------------------------------


def supervise(app: str, options: WorkerOptions | None = None, *, processes: int = 1) -> int:
    """Keep ``processes`` workers of the application ``module:attribute`` alive until a stop signal. Gives the exit code.

    Imports nothing of the application. To be called in the main thread.
    """
    from onward.clock import SystemClock
    from onward.drivers import connect
    from onward.events import Events
    from onward.telemetry.log import LifecycleLog, configure_logging
    from onward.worker.child import ChildPipes
    from onward.worker.reports import Reports
    from onward.worker.supervisor import Supervisor

    chosen = options or WorkerOptions()
    configure_logging()

    def command(pipes: ChildPipes) -> list[str]:
        terms = Terms(app=app, options=chosen, **msgspec.structs.asdict(pipes))
        return [sys.executable, "-m", "onward.worker_process", msgspec.json.encode(terms).decode()]

    return Supervisor(
        command,
        processes=processes,
        grace=chosen.grace,
        places=chosen.concurrency,
        open_store=lambda url: connect(url, clock=SystemClock()),
        reports=Reports(Events([LifecycleLog()]), None),
    ).run()


# -- the child -------------------------------------------------------------------------------------------------------


class Signals:
    """Signals as bytes in a pipe, so that nothing but ``os._exit`` ever runs inside a handler."""

    def __init__(self) -> None:
        self.is_loading = True
        """While the application is imported nothing has been claimed: a signal ends the process at once."""
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGUSR1, signal.SIGTTIN):
            faulthandler.register(number, all_threads=True)

    def read(self) -> bytes:
        """The numbers that came in; 0 for ``wake``."""
        try:
            return os.read(self.reader, 512)
        except BlockingIOError:
            return b""

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_loading:
            os._exit(0)


def main() -> int:
    """Load the application, work until told to stop, and give the exit code."""
    signals = Signals()
    terms = msgspec.json.decode(sys.argv[1], type=Terms)
    _end_with_parent()

    from onward.errors import OnwardError

    try:
        worker, app = _load(terms)
    except OnwardError as error:
        sys.stderr.write(f"onward: {error}\n")
        return error.exit_code
    _report(terms, {"ready": app.store.url if app.store.capabilities.survives_process else None})
    signals.is_loading = False

    ended = threading.Event()
    code = [1]

    def work() -> None:
        try:
            code[0] = worker.run()
        except BaseException:
            logger.exception("the worker failed")
        finally:
            ended.set()
            signals.wake()

    threading.Thread(target=work, name="onward-producer", daemon=True).start()
    exit_code = _watch(signals, terms.lifeline, worker, ended)
    _report(terms, {"ended": worker.finished.is_set(), "done": worker.ran_out})
    if worker.was_clean and exit_code == 0:
        app.close()
    return exit_code or code[0]


def _load(terms: Terms) -> tuple[Any, Any]:
    from onward.application import load_application
    from onward.errors import SchemaOutOfDate, StoreError
    from onward.telemetry.log import LifecycleLog, configure_logging
    from onward.worker.started import StartedJobs
    from onward.worker.worker import make_lease_owner

    app = load_application(terms.app)
    configure_logging()
    app.events.subscribe(LifecycleLog())
    try:
        app.store.open()
    except SchemaOutOfDate:
        raise
    except StoreError as error:
        logger.warning("the store cannot be opened yet: %s", error)
    worker = app.worker(
        **msgspec.structs.asdict(terms.options),
        lease_owner=make_lease_owner(nonce=terms.nonce),
        started=StartedJobs(terms.started),
        supervised=True,
    )
    return worker, app


def _watch(signals: Signals, lifeline: int, worker: Any, ended: threading.Event) -> int:
    """Wait for the worker's end, and pass on what should bring it about. Gives 130 if a second SIGINT did."""
    watched = [signals.reader, lifeline]
    exit_code = 0
    while not ended.is_set():
        readable, _, _ = select.select(watched, [], [])
        if lifeline in readable:
            watched.remove(lifeline)
            logger.warning("the supervisor is gone: stopping")
            worker.ask_to_stop()
        for number in signals.read():
            if number == signal.SIGINT and worker.is_stopping:
                logger.warning("second SIGINT: quitting at once, running jobs are given back")
                exit_code = QUIT_AT_ONCE
                worker.ask_to_stop(grace=0)
            elif number in (signal.SIGINT, signal.SIGTERM) and not worker.is_stopping:
                logger.info("%s: no new jobs, running ones may end within the grace", signal.Signals(number).name)
                worker.ask_to_stop()
    return exit_code


def _report(terms: Terms, fields: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(terms.report, msgspec.json.encode(fields) + b"\n")


def _end_with_parent() -> None:
    """Have the kernel send SIGTERM when the parent dies. The lifeline does the same, everywhere but later."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    status = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Not sys.exit: a handler that never ends must not hold the process.
    os._exit(status)
