"""The event loop for async handlers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("onward.worker")


class EventLoop:
    """One event loop in one thread, started with the first async job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def call(self, function: Callable[[], object]) -> None:
        """Call ``function`` on the loop, from any thread. Raises ``RuntimeError`` where the loop's own thread cannot be started."""
        with self._lock:
            if self._is_closed:
                return
            if self._loop is None:
                loop = asyncio.new_event_loop()
                loop.set_exception_handler(self._tell)
                try:
                    threading.Thread(target=self._serve, args=(loop,), name="onward-loop", daemon=True).start()
                except BaseException:
                    loop.close()
                    raise
                self._loop = loop
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        with self._lock:
            if self._loop is not None and not self._is_closed:
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._is_closed = True

    def _tell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """As asyncio does, but for a task that is left when the loop is closed: that its handler was given up has been said."""
        if not (self._is_closed and "task" in context):
            loop.default_exception_handler(context)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._is_closed:
            try:
                loop.run_forever()
            except BaseException:
                # SystemExit and KeyboardInterrupt of a handler's own subtask come out here; its neighbours go on.
                logger.exception("a task ended the event loop; it goes on")
        if not asyncio.all_tasks(loop):
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
