"""Two clocks behind one small protocol: wall time for what is stored, monotonic time for local deadlines."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. Handed in, so that tests move it."""

    def now(self) -> datetime:
        """The wall clock: aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now or datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, by: timedelta | float) -> None:
        """Move both clocks on by a ``timedelta`` or seconds."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._now += step
        self._monotonic += step.total_seconds()

    def step(self, by: timedelta | float) -> None:
        """Step the wall clock alone, back or forth, as NTP or a person would."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)
