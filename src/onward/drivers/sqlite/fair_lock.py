"""A lock that is handed on in the order in which it was asked for. SQLite's own is not fair, nor is ``threading.Lock``."""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """First come, first served."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._held = False

    def acquire(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds. Says whether the lock is ours now."""
        with self._mutex:
            if not self._held:
                self._held = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            if turn.acquire(timeout=max(timeout, 0)):
                return True
        except BaseException:
            if not self._gave_up(turn):
                self.release()
            raise
        return not self._gave_up(turn)

    def _gave_up(self, turn: threading.Lock) -> bool:
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return True
            return False  # handed to us in the last moment

    def release(self) -> None:
        """Hand the lock to whoever has waited longest."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False

    @property
    def waiting(self) -> int:
        """How many wait for the lock."""
        return len(self._waiting)
