"""What a worker process does under a supervisor: work, pass on signals, report, and end when either of them says so."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import msgspec

from onward.driver import Store
from onward.worker.child import QUIT_AT_ONCE, ChildPipes, Report
from onward.worker.lease_owner import make_lease_owner
from onward.worker.lifeline import Lifeline
from onward.worker.started import StartedJobs
from onward.worker.worker import Worker

logger = logging.getLogger("onward.worker")

PR_SET_PDEATHSIG = 1
FAILED = 1


def run_supervised(
    store: Store, make_worker: Callable[..., Worker], pipes: ChildPipes, on_line: Callable[[bytes], object] = lambda line: None
) -> int:
    """Run one worker until a signal, the supervisor's end, or its own end. Gives the exit code. For the main thread.

    ``on_line`` is called with each line that the supervisor hands on, in a thread of its own: it runs code of the application.

    ``make_worker`` is called with the keywords that the supervisor decides: ``lease_owner``, ``started``, ``supervised``. Before this
    is called nothing is claimed, so a signal may simply end the process. When handlers had to be given up this does not return: their
    threads would hold the interpreter's own exit, so the process ends here.
    """
    signals = Signals()
    end_with_parent(signal.SIGTERM)
    worker = make_worker(
        lease_owner=make_lease_owner(nonce=pipes.nonce),
        started=StartedJobs(pipes.started),
        supervised=True,
    )
    _report(pipes, Report(ready=(store.whole_url or store.url) if store.capabilities.survives_process else None))
    code = _work(worker, signals, pipes, on_line)
    if not worker.was_clean:
        _leave_now(code)
    signals.close()
    return code


def _work(worker: Worker, signals: Signals, pipes: ChildPipes, on_line: Callable[[bytes], object]) -> int:
    codes: list[int] = []

    def run() -> None:
        try:
            codes.append(worker.run())
        finally:
            ended.set()
            signals.wake()

    ended = threading.Event()
    threading.Thread(target=run, name="onward-producer", daemon=True).start()
    lifeline = Lifeline(pipes.lifeline, on_line)
    was_quit = _watch(signals, lifeline, worker, ended)
    lifeline.close()
    if not codes:
        return FAILED
    _report(pipes, Report(ended=True, done=worker.ran_out))
    return QUIT_AT_ONCE if was_quit else codes[0]


def _watch(signals: Signals, lifeline: Lifeline, worker: Worker, ended: threading.Event) -> bool:
    """Wait for the worker's end, and pass on what should bring it about. True when a second signal did, and that was SIGINT.

    A worker that stops by itself is not quit by the first one: whoever sent it knows nothing of that.
    """
    watched = [signals.reader, lifeline.fileno()]
    was_told = was_quit = False
    while not ended.is_set():
        readable, _, _ = select.select(watched, [], [])
        if lifeline.fileno() in readable and not lifeline.read():
            watched.remove(lifeline.fileno())
            logger.warning("the supervisor is gone: stopping")
            worker.ask_to_stop()
        for number in signals.read():
            if number == signal.SIGINT and was_told:
                logger.warning("second SIGINT: quitting at once, running jobs are given back")
                was_quit = True
                worker.ask_to_stop(grace=0)
            elif number in (signal.SIGINT, signal.SIGTERM) and not was_told:
                was_told = True
                logger.info("%s: no new jobs, running ones may end within the grace", signal.Signals(number).name)
                worker.ask_to_stop()
    return was_quit


class Signals:
    """Signals as bytes in a pipe: nothing of ours runs inside a handler, where a lock may be held by the code it interrupted."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _note)
        for number in (signal.SIGUSR1, signal.SIGTTIN):
            faulthandler.register(number, file=sys.__stderr__ or 2, all_threads=True)

    def read(self) -> bytes:
        """The numbers that came in; 0 is a ``wake``."""
        try:
            return os.read(self.reader, 512)
        except BlockingIOError:
            return b""

    def wake(self) -> None:
        """Have ``reader`` become readable. A full pipe is readable already."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    def close(self) -> None:
        """Let a signal during the interpreter's exit end the process without a word, not by a ``KeyboardInterrupt`` from anywhere."""
        signal.set_wakeup_fd(self._wakeup_before)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)


def _note(number: int, frame: FrameType | None) -> None:
    """The number is in the pipe already; this only keeps the signal from its default action."""


def _report(pipes: ChildPipes, report: Report) -> None:
    # A supervisor that is gone needs no report.
    with contextlib.suppress(OSError):
        os.write(pipes.report, msgspec.json.encode(report) + b"\n")


def end_with_parent(number: int) -> None:
    """Have the kernel send this signal when the parent dies. The lifeline does the same on every system, if Python still runs."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def _leave_now(code: int) -> None:
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
