"""One process that runs isolated jobs, as its worker sees it: one job at a time, and whatever it does there harms no neighbour."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from onward.errors import TransientJobError
from onward.worker.endings import describe_end
from onward.worker.isolated_messages import Ended, Message, Ready, Report, read_report, write_line

logger = logging.getLogger("onward.worker")

Command = Callable[[int], Sequence[str]]
"""The command line of a new process, given the descriptor of its end of the connection."""
LOOK_EVERY = 0.5
"""Seconds between two looks at whether the process lives: what a handler forked may keep the connection open."""
CHUNK = 65536
LONGEST_REPORT = 64 << 20
"""Bytes of one line. A handler's result, progress and children are far smaller."""


class IsolatedProcessDied(TransientJobError):
    """The process of an isolated job died while its handler ran; the message says of what."""


class IsolatedProcess:
    """Starts the process at once, in ``folder`` and in a process group of its own, so that all of it can be killed.

    ``run`` is for one thread at a time; ``tell`` and ``kill`` may be called from any, and never block.
    """

    def __init__(self, command: Command, folder: str) -> None:
        with contextlib.ExitStack() as unless_started:
            self._connection, theirs = socket.socketpair()
            unless_started.enter_context(self._connection)
            with theirs:
                self._wakeup, self._waker = os.pipe()
                for descriptor in (self._wakeup, self._waker):
                    unless_started.callback(os.close, descriptor)
                    os.set_blocking(descriptor, False)
                self._connection.setblocking(False)
                self._kills_before = _count_kills()
                self._process = subprocess.Popen(
                    command(theirs.fileno()), cwd=folder, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, process_group=0
                )
            unless_started.pop_all()
        self.pid = self._process.pid
        self._lock = threading.Lock()
        self._outgoing: deque[bytes] = deque()
        self._unread = b""
        self._is_garbled = False
        self._is_closed = False

    def is_usable(self) -> bool:
        """False once it has ended, or is about to."""
        return not (self._is_over() or self._is_hung_up())

    def wait_until_ready(self, seconds: float) -> bool:
        """Wait until the application is loaded. False when the process ended instead, or took too long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            reports = self._exchange()
            if reports is None:
                return False
            if any(isinstance(one, Ready) for one in reports):
                return True
        return False

    def run(self, message: Message, hear: Callable[[Report], None]) -> Ended | None:
        """Have a job run, and give how it ended; ``hear`` is called with what is reported on the way. None when the process died."""
        self.tell(message)
        while True:
            reports = self._exchange()
            if reports is None:
                return None
            for report in reports:
                if isinstance(report, Ended):
                    return report
                hear(report)

    def tell(self, message: Message) -> None:
        """Send a message, as soon as the process takes it."""
        with self._lock:
            if self._is_closed:
                return
            self._outgoing.append(write_line(message))
            with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
                os.write(self._waker, b"\0")

    def kill(self) -> None:
        """Kill the process and all that it started and left in its group."""
        with self._lock:
            self._kill()

    def end(self) -> str:
        """End the process, whatever it does, and say how it ended: by itself, if it was dead already."""
        if not self._wait(LOOK_EVERY if self._is_hung_up() else 0):
            self.kill()
        with self._lock:
            self._kill()  # what it left behind, while its number can belong to nobody else
            code = self._process.wait()
            if not self._is_closed:
                self._is_closed = True
                self._connection.close()
                os.close(self._wakeup)
                os.close(self._waker)
        return _how_it_ended(code, _count_kills() > self._kills_before)

    # -- the connection ----------------------------------------------------------------------------------------------

    def _exchange(self) -> list[Report] | None:
        """Send what is to be sent, and give what was reported meanwhile; None once the process has ended, or hung up."""
        if self._is_garbled:
            return None
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        ready = dict(poll.poll(LOOK_EVERY * 1000))
        if self._wakeup in ready:
            os.read(self._wakeup, CHUNK)
        state = ready.get(self._connection.fileno(), 0)
        if state & select.POLLOUT:
            self._send()
        if state & ~select.POLLOUT:
            return self._receive()
        return [] if ready or not self._wait(0) else None

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):  # whoever reads learns of the end
            while self._outgoing:
                line = self._outgoing[0]
                sent = self._connection.send(line)
                with self._lock:
                    if sent < len(line):
                        self._outgoing[0] = line[sent:]
                    else:
                        self._outgoing.popleft()

    def _receive(self) -> list[Report] | None:
        try:
            read = self._connection.recv(CHUNK)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            read = b""
        if not read:
            return None
        *lines, self._unread = (self._unread + read).split(b"\n")
        if len(self._unread) > LONGEST_REPORT:
            logger.error("what the process %d reports has no end, so it is killed", self.pid)
            return None
        reports = []
        for line in lines:
            try:
                reports.append(read_report(line))
            except msgspec.DecodeError as error:  # a handler wrote into the connection: what ended, and how, is not known any more
                logger.error("what the process %d reports cannot be read, so it is killed: %s", self.pid, error)
                self._is_garbled = True
                break
        return reports  # what came before stands: that its handler has begun, above all

    def _is_hung_up(self) -> bool:
        """True when the other end is closed: then the process is about to end, or closed all its descriptors."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return any(state & select.POLLHUP for _, state in poll.poll(0))

    # -- the process -------------------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> bool:
        """Wait for the end, without reaping: until then its number, which is that of its group, can belong to nobody else."""
        until = time.monotonic() + seconds
        while not self._is_over():
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)
        return True

    def _is_over(self) -> bool:
        with self._lock:
            if self._process.returncode is not None:
                return True
            if not hasattr(os, "waitid"):  # pragma: no cover - macOS before Python 3.13
                return self._process.poll() is not None
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _kill(self) -> None:
        if self._process.returncode is None:
            # There may be no group yet. macOS answers with EPERM when only a dead process is left in it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def _how_it_ended(code: int, was_out_of_memory: bool) -> str:
    how = describe_end(code)
    return f"{how}, out of memory" if how == "SIGKILL" and was_out_of_memory else how


def _count_kills() -> int:
    """How many processes the kernel has killed since it started because memory ran out, of the machine or of a group. Linux only."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0
