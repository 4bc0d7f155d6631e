"""Wakes an idle worker: by ``wake`` in this process, by a file event when another process writes, by a slow poll behind both."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from onward.drivers.fork import Forked
from onward.drivers.sqlite.file_events import FileEvents, watch

# The event comes when the log is written, a moment before the commit can be read: its fsync lies in between. So one looks again,
# quickly at first, then ever more slowly: a slow disk is found out late, but not only by the next poll.
FIRST_LOOK, LAST_LOOK, LOOK_FOR = 0.00005, 0.01, 0.1
BUSY_POLL, IDLE_POLL = 0.005, 0.05


class Waker(Forked):
    """One waiting thread, any number that wake it. Makes nothing before the first ``wait``."""

    def __init__(
        self,
        path: Path,
        has_news: Callable[[], bool],
        events: Callable[[Path], FileEvents | None] = watch,
        *,
        poll: float = 1.0,
    ) -> None:
        self._path = path
        self._has_news = has_news
        self._watch = events
        self._slow_poll = poll
        self._start_afresh()
        self.follow_forks()

    def _start_afresh(self) -> None:
        self._woken = False
        self._pipe: tuple[int, int] | None = None
        self._events: FileEvents | None = None
        self._poll = BUSY_POLL
        self._making = threading.Lock()

    def reset_after_fork(self) -> None:
        """Leave the parent its pipe and its events."""
        if self._events is not None:
            self._events.close()
        for end in self._pipe or ():
            os.close(end)
        self._start_afresh()

    def wake(self) -> None:
        """End ``wait``, or the next one. Takes no lock, so a signal handler may call it."""
        self._woken = True
        pipe = self._pipe
        if pipe is not None:
            try:
                os.write(pipe[1], b"!")
            except (BlockingIOError, OSError):
                return  # full: it is awake already

    def wait(self, timeout: float) -> bool:
        """Block until there is news, ``wake`` is called, or ``timeout`` seconds are over. True unless it timed out."""
        pipe = self._ready()
        deadline = time.monotonic() + timeout
        look, look_until = 0.0, 0.0
        while True:
            if self._woken:
                self._woken = False
                self._drain(pipe[0])
                return True
            if self._has_news():
                self._poll = BUSY_POLL
                return True
            now = time.monotonic()
            if now >= deadline:
                return False
            pause = self._pause()
            if 0 < look < pause:
                pause, look = look, min(look * 1.5, LAST_LOOK) if now < look_until else look * 1.5
            if self._sleep(pipe[0], min(pause, deadline - now)):
                look, look_until = FIRST_LOOK, time.monotonic() + LOOK_FOR

    def _pause(self) -> float:
        if self._events is not None:
            return self._slow_poll
        self._poll = min(self._poll * 1.1, IDLE_POLL)
        return self._poll

    def _sleep(self, pipe: int, seconds: float) -> bool:
        """Sleep until something happens. True when the file changed."""
        events = self._events
        watched = [pipe] if events is None else [pipe, events.fileno()]
        ready, _, _ = select.select(watched, [], [], seconds)
        return events is not None and events.fileno() in ready and events.drain()

    def _ready(self) -> tuple[int, int]:
        with self._making:
            if self._pipe is None:
                read, write = os.pipe()
                os.set_blocking(read, False)
                os.set_blocking(write, False)
                self._events = self._watch(self._path)
                self._pipe = (read, write)
                weakref.finalize(self, _close, os.getpid(), read, write, self._events)
            return self._pipe

    @staticmethod
    def _drain(pipe: int) -> None:
        try:
            while len(os.read(pipe, 4096)) == 4096:
                pass
        except BlockingIOError:
            return


def _close(pid: int, read: int, write: int, events: FileEvents | None) -> None:
    if os.getpid() != pid:
        return
    os.close(read)
    os.close(write)
    if events is not None:
        events.close()
