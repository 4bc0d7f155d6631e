"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import json  # and not msgspec, which takes 5 MB: a supervisor is there once for each worker, and does next to nothing
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from onward.worker.endings import describe_end
from onward.worker.lease_owner import make_lease_owner
from onward.worker.started import MOST_HELD, StartedJobs, create_map

MOST_LOOKS = 5
QUIT_AT_ONCE = 130
"""The exit code after a second SIGINT, as a shell has it."""


class ChildPipes(NamedTuple):
    """What parent and child share, as descriptors of the child."""

    nonce: str
    started: int
    lifeline: int
    report: int


class Report(NamedTuple):
    """One line that a child writes to its parent."""

    ready: str | None = None
    """The URL of its store, from which its claims can be taken back."""
    ended: bool = False
    """The worker came to an end of its own: it settled or gave back what it held. False in the line that says it is ready."""
    done: bool = False
    """There was nothing left to do: no need for a successor."""


class Child:
    """Starts the process at once, in a session of its own: a terminal's Ctrl-C reaches the supervisor alone, and what the worker starts
    can be found, such as the groups of its isolated jobs.
    """

    def __init__(self, command: Callable[[ChildPipes], Sequence[str]], *, nonce: str, size: int) -> None:
        with contextlib.ExitStack() as unless_started, contextlib.ExitStack() as inherited:
            descriptor = create_map(size + 2 * MOST_HELD)
            inherited.callback(os.close, descriptor)
            self.started = StartedJobs(descriptor)
            unless_started.callback(self.started.close)
            lifeline, self._lifeline = os.pipe()
            inherited.callback(os.close, lifeline)
            unless_started.callback(os.close, self._lifeline)
            self.report, report = os.pipe()
            inherited.callback(os.close, report)
            unless_started.callback(os.close, self.report)
            os.set_blocking(self.report, False)
            os.set_blocking(self._lifeline, False)
            self._process = subprocess.Popen(
                command(ChildPipes(nonce, descriptor, lifeline, report)),
                pass_fds=(descriptor, lifeline, report),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            unless_started.pop_all()
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
        self.told: list[bytes] = []
        """What it was given. It has read nothing of it before it is ready."""
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
        return describe_end(self.code)

    def has_ended(self) -> bool:
        """True once, and for ever after, the process is gone. Reads what it still had to say, and ends what it left behind."""
        if self._process.returncode is None:
            if not self._is_over():
                return False
            # Until it is reaped, its number can belong to nobody else.
            self._kill_group()
            _kill_session(self.pid)
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
            report = Report(*json.loads(line))
            if report.ended:
                self.has_given_back, self.is_done = True, report.done
            else:
                self.is_ready, self.store_url = True, report.ready

    def tell(self, line: bytes) -> bool:
        """Give the child one line, which a pipe takes in one piece. A child that is gone, or does not read, is not waited for."""
        try:
            os.write(self._lifeline, line)
        except OSError:
            return False
        self.told.append(line)
        return True

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


def _kill_session(leader: int) -> None:
    """Kill what is left of a session whose leader is dead, in whatever groups it is. Linux only: nothing else lists sessions."""
    for _ in range(MOST_LOOKS):  # what is about to fork may do so once more
        left = [pid for pid in _session(leader) if pid != leader]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return


def _session(leader: int) -> Iterator[int]:
    """The living processes of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in brackets may hold anything; then come the state, the parent, the group and the session.
            state, _, _, session = stat.read_bytes().rpartition(b")")[2].split()[:4]
            if int(session) == leader and state != b"Z":
                yield int(stat.parent.name)
