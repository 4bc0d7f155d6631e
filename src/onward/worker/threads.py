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
        with self._lock:
            self._handed_out += 1
            needs_thread = self._handed_out > self._count
            self._count += needs_thread
        self._queue.put(run)
        if needs_thread:
            threading.Thread(target=self._serve, name="onward-slot", daemon=True).start()

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
