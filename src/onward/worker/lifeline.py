"""What ties a worker process to its supervisor: it ends when that is gone, and brings what that has to tell."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

TOLD_WITHIN = 1.0
"""Seconds that the end of the process waits for what is being told."""


class Lifeline:
    """The reading end of a pipe that the supervisor holds open. ``on_line`` is called in a thread of its own: it may be slow."""

    def __init__(self, descriptor: int, on_line: Callable[[bytes], object]) -> None:
        self._descriptor = descriptor
        self._on_line = on_line
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._unread = b""
        os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        return self._descriptor

    def read(self) -> bool:
        """Take what was sent. False once the supervisor is gone."""
        try:
            while read := os.read(self._descriptor, 65_536):
                *lines, self._unread = (self._unread + read).split(b"\n")
                for line in lines:
                    self._tell(line)
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        """Tell what has come by now, for as long as the end may wait for it."""
        self.read()
        if self._thread is not None:
            self._lines.put(None)
            self._thread.join(TOLD_WITHIN)

    def _tell(self, line: bytes) -> None:
        self._lines.put(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="onward-told", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._on_line(line)
