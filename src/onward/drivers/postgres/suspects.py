"""Claims that look abandoned, while perhaps somebody's transaction on their row only kept the worker from renewing the lease."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from onward.clock import Clock
from onward.drivers.sql.rows import COLUMNS
from onward.drivers.sql.statements import Row

KEY = tuple(COLUMNS.index(name) for name in ("id", "fence", "lease_until"))


class Suspects:
    """Remembers since when this process sees a claim run out while nobody holds its row.

    A worker in good health renews within a second of the moment in which the row is let go. A sweep cannot tell that moment from any
    other, so it looks twice, but only where somebody has held the row since it was last written: of that the row itself keeps a trace.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[Any, ...], float] = {}

    def ripe(self, rows: list[Row], patience: timedelta) -> list[Row]:
        """Those of all the rows that are run out and free which nobody has held, or which were so ``patience`` ago.

        The last column says whether somebody has held it, and is left out of what is given. Forgets what is not among the rows.
        """
        now = self._clock.monotonic()
        keys = {row: tuple(row[place] for place in KEY) for row in rows}
        with self._lock:
            self._seen = {key: self._seen.get(key, now) for key in keys.values()}
            return [row[:-1] for row in rows if not row[-1] or self._seen[keys[row]] + patience.total_seconds() <= now]
