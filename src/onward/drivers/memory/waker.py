"""Ends the wait of one thread."""

from __future__ import annotations

from datetime import timedelta
from queue import Empty, SimpleQueue


class Waker:
    """One waiting thread, any number that wake it, also in signal handlers. Many wakes are one."""

    def __init__(self) -> None:
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> None:
        if self._wakes.empty():
            self._wakes.put(None)

    def wait(self, timeout: timedelta) -> bool:
        """Block until ``wake`` is called. False when the time is over first."""
        try:
            self._wakes.get(timeout=timeout.total_seconds())
        except Empty:
            return False
        return True
