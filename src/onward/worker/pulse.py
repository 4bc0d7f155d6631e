"""Whether this process may trust what it sees of other workers' leases.

After a failure of the store, or time in which the process did not run (a laptop's sleep, a stopped process), every lease in the
store looks old, also those of workers in good health that wake up in this same moment. They get one heartbeat's time.
"""

from __future__ import annotations

import threading

from onward.clock import Clock


class Pulse:
    """``interval`` is the time between two heartbeats, in seconds: a third of the shortest lease."""

    def __init__(self, clock: Clock, interval: float) -> None:
        self.interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = self._read()
        self._is_troubled = False
        self._beat_at: float | None = None

    def look(self) -> None:
        """Compare the clocks with the last look. Both, since the monotonic one may stand still while a machine sleeps."""
        with self._lock:
            wall, monotonic = self._read()
            passed = max(wall - self._seen[0], monotonic - self._seen[1])
            self._seen = (wall, monotonic)
            if passed > 2 * self.interval:
                self._trouble()

    def fail(self) -> None:
        """The store failed."""
        with self._lock:
            self._trouble()

    def beat(self) -> None:
        """A heartbeat went through."""
        with self._lock:
            if self._beat_at is None:
                self._beat_at = self._clock.monotonic()

    def allows_sweep(self) -> bool:
        """True unless there was trouble and less than one heartbeat's time has passed since the first beat after it."""
        self.look()
        with self._lock:
            if self._is_troubled and self._beat_at is not None and self._clock.monotonic() >= self._beat_at + self.interval:
                self._is_troubled = False
            return not self._is_troubled

    def _trouble(self) -> None:
        self._is_troubled = True
        self._beat_at = None

    def _read(self) -> tuple[float, float]:
        return self._clock.now().timestamp(), self._clock.monotonic()
