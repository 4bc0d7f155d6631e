"""A place in the line of this process's writers."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from onward.drivers.sqlite.fair_lock import FairLock
from onward.errors import StoreBusy


class Place:
    """A block that holds the lock; gives the deadline, a reading of ``time.monotonic``, for what follows. Raises ``StoreBusy``."""

    def __init__(self, lock: FairLock, timeout: float, path: Path) -> None:
        self._lock = lock
        self._timeout = timeout
        self._path = path
        self._pid = os.getpid()
        self._once = threading.Lock()

    def __enter__(self) -> float:
        deadline = time.monotonic() + self._timeout
        if not self._lock.acquire(self._timeout):
            raise StoreBusy(
                f"another thread of this process held the write lock of {self._path} for longer than the timeout: "
                "nothing was stored; keep transactions short, and try again"
            )
        return deadline

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Let the next writer in. Does nothing the second time, or in a forked child that left its parent's block."""
        if self._pid == os.getpid() and self._once.acquire(blocking=False):
            self._lock.release()
