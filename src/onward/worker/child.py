"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from onward.worker.producer import MOST_HELD
from onward.worker.started import StartedJobs, create_map
from onward.worker.worker import make_lease_owner

QUIT_AT_ONCE = 130
"""The exit code after a second SIGINT, as a shell has it."""


class ChildPipes(Struct, frozen=True):
    """What parent and child share, as descriptors of the child."""

    nonce: str
    started: int
    lifeline: int
    report: int


class Report(Struct, frozen=True):
    """One line that a child writes to its parent."""

    ready: str | None = None
    """The URL of its store, from which its claims can be taken back."""
    ended: bool = False
    """The worker came to an end of its own: it settled or gave back what it held. False in the line that says it is ready."""
    done: bool = False
    """There was nothing left to do: no need for a successor."""


class Child:
    """Starts the process at once, in a process group of its own: a terminal's Ctrl-C reaches the supervisor alone."""

    def __init__(self, command: Callable[[ChildPipes], Sequence[str]], *, nonce: str, size: int) -> None:
        descriptor = create_map(size + 2 * MOST_HELD)
        self.started = StartedJobs(descriptor)
        lifeline, self._lifeline = os.pipe()
        self.report, report = os.pipe()
        os.set_blocking(self.report, False)
        inherited = (descriptor, lifeline, report)
        try:
            self._process = subprocess.Popen(
                command(ChildPipes(nonce, descriptor, lifeline, report)), pass_fds=inherited, stdin=subprocess.DEVNULL, process_group=0
            )
        finally:
            for one in inherited:
                os.close(one)
        self.pid = self._process.pid
        self.lease_owner = make_lease_owner(self.pid, nonce)
        self.store_url: str | None = None
        self.is_ready = False
        self.has_given_back = False
        """True when it ended in good order, whatever the exit code."""
        self.is_done = False
        self.is_talking = True
        """False once the child has closed its end of the report."""
        self.was_killed = False
        self._began = time.monotonic()
        self._unread = b""

    @property
    def age(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def code(self) -> int:
        """The exit code, negative for a signal. Only after the end."""
        code: int | None = self._process.returncode
        assert code is not None
        return code

    @property
    def how_it_ended(self) -> str:
        return f"exit code {self.code}" if self.code >= 0 else signal.Signals(-self.code).name

    def has_ended(self) -> bool:
        """True once, and for ever after, the process is gone. Reads what it still had to say, and ends what it left behind."""
        if self._process.returncode is None:
            if not self._is_over():
                return False
            # Until it is reaped, its number can belong to nobody else.
            self._kill_group()
            self._process.wait()
        self.listen()
        return True

    def _is_over(self) -> bool:
        if not hasattr(os, "waitid"):  # pragma: no cover - macOS before Python 3.13
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # pragma: no cover - SIGCHLD is ignored here, so the kernel keeps no exit codes
            return self._process.poll() is not None

    def listen(self) -> None:
        """Read what the child reports."""
        try:
            while read := os.read(self.report, 4096):
                self._unread += read
            self.is_talking = False
        except BlockingIOError:
            pass
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            report = msgspec.json.decode(line, type=Report)
            if report.ended:
                self.has_given_back, self.is_done = True, report.done
            else:
                self.is_ready, self.store_url = True, report.ready

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process, wherever a handler moved it, and what it started."""
        self.was_killed = True
        self._kill_group()
        self.send(signal.SIGKILL)

    def _kill_group(self) -> None:
        # There may be none any more. macOS answers with EPERM when only a dead process is left in it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        os.close(self.report)
        os.close(self._lifeline)
        self.started.close()
