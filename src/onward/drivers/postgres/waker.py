"""Ends a worker's ``wait``: by ``wake`` in this process, by a notification, by the time. Says whether notifications can be relied on."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg

from onward.drivers.fork import Forked
from onward.drivers.postgres.connections import complete
from onward.drivers.postgres.listener import Listener, Timing
from onward.drivers.postgres.self_check import PING, SelfCheck

LONGEST_SLEEP = 3600.0


class Waker(Forked):
    """One waiting thread, any number that wake it. Makes nothing before the first ``wait``.

    ``connect`` makes the listener's connection; without it nothing is listened for. ``ping`` sends a payload on the channel over another
    connection; what it raises counts as no answer.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]] | None = None,
        channel: str = "",
        ping: Callable[[str], object] = lambda payload: None,
        *,
        timing: Timing | None = None,
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._ping = ping
        self._timing = timing or Timing()
        self._bell = Bell()
        self._start_afresh()
        self.follow_forks()

    @classmethod
    def listening(cls, url: str, channel: str, ping: Callable[[str], object], *, timing: Timing | None = None) -> Waker:
        """Listen at ``url``, a connection string for libpq."""
        return cls(lambda: psycopg.connect(complete(url, "onward listener"), autocommit=True), channel, ping, timing=timing)

    def _start_afresh(self) -> None:
        self._listening: Listening | None = None
        self._queues: tuple[str, ...] = ()
        self._making = threading.Lock()

    def reset_after_fork(self) -> None:
        """Leave the parent its pipe, its socket and its thread."""
        if self._listening is not None:
            self._listening.finalizer.detach()
            self._listening.listener.leave_to_parent()
        self._bell.leave_to_parent()
        self._bell = Bell()
        self._start_afresh()

    def serve(self, queues: tuple[str, ...]) -> None:
        """From now on only notifications about these queues wake; empty means every queue."""
        self._queues = queues
        listening = self._listening
        if listening is not None:
            listening.ear.queues = queues

    @property
    def is_proven(self) -> bool:
        """True while a notification is sure to end ``wait``."""
        listening = self._listening
        return listening is not None and listening.check.is_proven

    def wake(self) -> None:
        """End ``wait``, or the next one. Takes no lock, so a signal handler may call it."""
        self._bell.ring()

    def wait(self, timeout: float) -> bool:
        """Block until a notification arrives, ``wake`` is called, or ``timeout`` seconds are over. True unless it timed out.

        Checks meanwhile whether notifications arrive, so that it may take as long as a ping through the store takes to fail.
        """
        self._bell.open()
        listening = self._listen()
        until = time.monotonic() + timeout
        while not self._bell.take():
            if time.monotonic() >= until:
                return False
            pause = until - time.monotonic()
            if listening is not None:
                pause = min(pause, listening.check.tend(listening.listener))
            self._bell.sleep(min(pause, until - time.monotonic()))
        return True

    def close(self) -> None:
        """End the listening, and wake whoever waits. The next ``wait`` begins it anew."""
        with self._making:
            listening, self._listening = self._listening, None
        self._bell.ring()
        if listening is not None:
            listening.finalizer()

    def _listen(self) -> Listening | None:
        if self._connect is None:
            return None
        with self._making:
            if self._listening is None:
                check = SelfCheck(self._ping, self._timing)
                ear = WorkersEar(self._bell, check, self._queues)
                listener = Listener(self._connect, self._channel, ear, self._timing)
                # Nothing of the listener's knows this waker, so it ends with it.
                self._listening = Listening(ear, check, listener, weakref.finalize(self, listener.close))
                listener.start()
            return self._listening


class WorkersEar:
    """Rings when a job may have become claimable for a worker of ``queues``; empty means every queue."""

    def __init__(self, bell: Bell, check: SelfCheck, queues: tuple[str, ...]) -> None:
        self._bell = bell
        self._check = check
        self.queues = queues

    def connected(self) -> None:
        self._check.connected()
        self._bell.ring()

    def lost(self) -> None:
        """What was relied on is gone: the worker looks now, and decides anew how long it may sleep."""
        was_proven = self._check.is_proven
        self._check.lost()
        if was_proven:
            self._bell.ring()

    def heard(self, payloads: list[str]) -> bool:
        is_proven = self._check.heard(payloads)
        queues = self.queues
        if any(not payload.startswith(PING) and (not queues or payload in queues) for payload in payloads):
            self._bell.ring()
        return is_proven

    @property
    def is_rung(self) -> bool:
        return self._bell.is_rung


class Listening(NamedTuple):
    """What works together while a waker listens. Calling ``finalizer`` ends it, once."""

    ear: WorkersEar
    check: SelfCheck
    listener: Listener
    finalizer: weakref.finalize[Any, Any]


class Bell:
    """One thread sleeps, any number ring, also in signal handlers: nothing here takes a lock. Many rings are one."""

    def __init__(self) -> None:
        self.is_rung = False
        """Nobody has taken the last ring yet."""
        self._pipe: tuple[int, int] | None = None

    def open(self) -> None:
        """Make it ready for ``sleep``. Called by the thread that sleeps."""
        if self._pipe is None:
            read, write = os.pipe()
            os.set_blocking(read, False)
            os.set_blocking(write, False)
            self._pipe = (read, write)
            weakref.finalize(self, _close, os.getpid(), read, write)

    def ring(self) -> None:
        self.is_rung = True
        pipe = self._pipe
        if pipe is not None:
            with suppress(BlockingIOError):  # it is full of rings already
                os.write(pipe[1], b"!")

    def take(self) -> bool:
        """Say whether it was rung since the last time."""
        if not self.is_rung:
            return False  # and is not set: it may be rung just now
        self.is_rung = False
        return True

    def sleep(self, seconds: float) -> None:
        """Sleep until it rings. May end early."""
        assert self._pipe is not None
        read = self._pipe[0]
        poll = select.poll()
        poll.register(read, select.POLLIN)
        if poll.poll(min(max(seconds, 0.0), LONGEST_SLEEP) * 1000):
            with suppress(BlockingIOError):
                while len(os.read(read, 4096)) == 4096:
                    pass

    def leave_to_parent(self) -> None:
        """In a forked child: the copies of the pipe's ends."""
        pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)


def _close(pid: int, read: int, write: int) -> None:
    if os.getpid() == pid:
        os.close(read)
        os.close(write)
