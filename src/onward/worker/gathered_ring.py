"""One ring for all that ends on the event loop at about the same time, so that a turn has something to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

RING_AFTER = 0.005
"""Seconds for which endings are gathered while more wait to start."""


class GatheredRing:
    """Calls ``ring`` once for a round of the loop, or for a few of them while the slots have work without it. For the loop's thread."""

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._is_due = False
        self._later: asyncio.TimerHandle | None = None

    def ask(self, *, can_wait: bool) -> None:
        """Something has ended."""
        if can_wait:
            if self._later is None:
                self._later = asyncio.get_running_loop().call_later(RING_AFTER, self._ring_once)
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._ring_once)

    def _ring_once(self) -> None:
        self._is_due = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._ring()
