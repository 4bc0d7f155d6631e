"""Threads for sync handlers."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from onward.worker.run import Run

logger = logging.getLogger("onward.worker")


class Threads:
    """Threads for sync handlers, started when needed and kept. They never hold up the exit of the process."""

    def __init__(self, work: Callable[[Run], None]) -> None:
        self._work = work
        self._queue: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._handed_out = 0
        """How many threads are needed for the runs that were put and whose thread is not idle again."""

    def put(self, run: Run) -> None:
        """Have a thread work on it. Raises ``RuntimeError`` where none is idle, and none can be started."""
        with self._lock:
            self._handed_out += 1
            needs_thread = self._handed_out > self._count
            self._count += needs_thread
        if needs_thread:
            try:
                threading.Thread(target=self._serve, name="onward-slot", daemon=True).start()
            except BaseException:
                with self._lock:
                    self._handed_out -= 1
                    self._count -= 1
                raise
        self._queue.put(run)

    def close(self) -> None:
        for _ in range(self._count):
            self._queue.put(None)

    def _serve(self) -> None:
        while (run := self._queue.get()) is not None:
            try:
                self._work(run)
            except BaseException:
                # Only a defect of ours ends here: handlers' errors became outcomes. The slot must live on.
                logger.exception("a slot failed outside its handler")
            with self._lock:
                self._handed_out -= 1
            # An idle thread must not keep the last job alive.
            run = None
