"""How many jobs to claim ahead of free slots: none, unless jobs are so short that asking for each would cost more than running it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median_low

SHORT = 0.005
WINDOW = 0.02
MOST_AHEAD = 1000
_REMEMBERED = 64


class Pace:
    """Remembers how long recent jobs ran, and how many ended in the last moment. Times are seconds."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=_REMEMBERED)
        self._ends: deque[tuple[float, int]] = deque()

    def ended(self, now: float, durations: Iterable[float | None]) -> None:
        """Note runs that ended; None is one that never started."""
        known = [one for one in durations if one is not None]
        if known:
            self._durations.extend(known[-_REMEMBERED:])
            self._ends.append((now, len(known)))

    def prefetch(self, now: float) -> int:
        """How many to claim beyond the free slots: as many as ran in the last 20 ms, if the median run takes less than 5 ms."""
        while self._ends and self._ends[0][0] < now - WINDOW:
            self._ends.popleft()
        if not self._ends or median_low(self._durations) >= SHORT:
            return 0
        return min(sum(count for _, count in self._ends), MOST_AHEAD)
