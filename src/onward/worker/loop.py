"""The loop, written once: call a duty again and again, back off after an error, stop when told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from random import Random
from typing import Protocol

from onward.errors import StoreError

logger = logging.getLogger("onward.worker")

FIRST_BACK_OFF = 0.2
LONGEST_BACK_OFF = 30.0


class Idle(float):
    """Seconds to pause after a tick that did not get to its work: it says nothing of whether the duty works again."""


class Duty(Protocol):
    """One thing a worker does from time to time."""

    name: str

    def tick(self) -> float:
        """Do it once. Gives the seconds until the next time."""
        ...


class Loop:
    """Calls ``duty.tick()`` until it is stopped. An error is logged and followed by a growing pause; a success resets that.

    ``jitter`` moves each pause by up to this share both ways, ``first_pause`` delays the first tick, ``rest`` replaces the sleep
    between ticks, ``on_error`` is told of each error. ``longest_back_off`` is in seconds.
    """

    def __init__(
        self,
        duty: Duty,
        *,
        chance: Random,
        jitter: float = 0.0,
        first_pause: float = 0.0,
        longest_back_off: float = LONGEST_BACK_OFF,
        rest: Callable[[float], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
    ) -> None:
        self.failures = 0
        """Errors in a row."""
        self._duty = duty
        self._chance = chance
        self._jitter = jitter
        self._first_pause = first_pause
        self._longest_back_off = longest_back_off
        self._rest = rest or self._sleep
        self._on_error = on_error
        self._bell = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in a thread of its own, one that never holds up the exit of the process."""
        self._thread = threading.Thread(target=self.run, name=f"onward-{self._duty.name}", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Run in this thread until stopped."""
        if self._first_pause:
            self._sleep(self._first_pause)
        while not self._stopping:
            pause = self.step()
            if pause <= 0:
                continue
            # One that has nothing to do waits where it can be woken, also if nothing has shown yet that it works again.
            if self.failures and not isinstance(pause, Idle):
                self._sleep(pause)
            else:
                self._rest_safely(pause)

    def step(self) -> float:
        """One tick, with its error caught. Gives the seconds to pause."""
        try:
            pause = self._duty.tick()
        except Exception as error:  # noqa: BLE001 - logged, counted, and followed by a pause
            return self._after_failure(error)
        if self.failures and not isinstance(pause, Idle):
            logger.info("%s works again after %d failures", self._duty.name, self.failures)
            self.failures = 0
        return pause * self._chance.uniform(1 - self._jitter, 1 + self._jitter) if self._jitter else pause

    def wake(self) -> None:
        """End the pause now."""
        self._bell.set()

    def stop(self) -> None:
        """End after the running tick. Returns at once."""
        self._stopping = True
        self._bell.set()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end of the loop's thread. Says whether it ended."""
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _rest_safely(self, pause: float) -> None:
        try:
            self._rest(pause)
        except Exception as error:  # noqa: BLE001 - as above
            self._sleep(self._after_failure(error))

    def _sleep(self, seconds: float) -> None:
        if not self._stopping:
            self._bell.wait(seconds)
        self._bell.clear()

    def _after_failure(self, error: Exception) -> float:
        self.failures += 1
        pause = min(FIRST_BACK_OFF * 2.0 ** min(self.failures - 1, 20), self._longest_back_off) * self._chance.uniform(0.8, 1.0)
        if isinstance(error, StoreError):
            logger.warning("%s failed (%d in a row), next try in %.1f s: %s", self._duty.name, self.failures, pause, error)
        else:
            logger.error("%s failed (%d in a row), next try in %.1f s", self._duty.name, self.failures, pause, exc_info=error)
        if self._on_error is not None:
            self._on_error(error)
        return pause
