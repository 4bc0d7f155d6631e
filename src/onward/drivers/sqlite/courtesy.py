"""Gaps that worker processes leave together, so that writers which are not ours find the lock free."""

from __future__ import annotations

import time
from collections.abc import Callable

# SQLite's own busy handler tries ten times a second once it has waited for a third of a second, so only a gap that is longer than a
# tenth is sure to be met by one of its tries; the time of the turn that is under way when it begins comes on top.
GAP = 0.11
EVERY = 2.2
BUSY = EVERY / 2


class Courtesy:
    """Says when a process whose turns follow one another without a rest should pause.

    The gaps of all processes fall together, since they are cut from the host's monotonic clock: one that paused alone would only make
    room for the others.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._period = 0
        self._began = 0.0
        self._spent = 0.0
        """Seconds of this period that went into turns, waiting for the lock included."""

    def begin(self) -> float:
        """A turn is about to begin. Gives the seconds to pause before it: none unless the period before was a busy one."""
        now = self._began = self._monotonic()
        period = int(now // EVERY)
        if period == self._period:
            return 0.0
        was_busy = period == self._period + 1 and self._spent > BUSY
        self._period, self._spent = period, 0.0
        pause = max(period * EVERY + GAP - now, 0.0) if was_busy else 0.0
        self._began += pause
        return pause

    def end(self) -> None:
        """A turn has ended."""
        self._spent += self._monotonic() - self._began
