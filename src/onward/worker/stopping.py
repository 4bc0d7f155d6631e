"""The way to stop: running jobs get the grace, then async ones are cancelled, then what is left is given back."""

from __future__ import annotations

import logging
import threading
import time

from onward.errors import StoreError
from onward.worker.producer import Producer
from onward.worker.slots import Slots

logger = logging.getLogger("onward.worker")

CLEAN_UP = 0.75
"""Seconds that cancelled async handlers get before the grace ends, or a quarter of a short grace."""
OVERTIME = 0.25
"""Seconds beyond the grace until what still runs is given back. The supervisor kills 0.2 s later."""
LAST_WRITES = 0.15
"""Seconds after that for a store that is busy."""
PATIENCE_WITHOUT_GRACE = 30.0


class Stopping:
    """``grace`` is in seconds, from the moment of asking; None waits for ever."""

    def __init__(self, slots: Slots, producer: Producer, *, grace: float | None) -> None:
        self._slots = slots
        self._producer = producer
        self._grace = grace
        self._ends_at: float | None = None
        self._bell = threading.Event()
        self.was_asked = False

    def ask(self, grace: float | None) -> None:
        """Begin, or shorten the grace."""
        if grace is None:
            grace = self._grace if not self.was_asked else None
        self.was_asked = True
        if grace is not None:
            ends_at = time.monotonic() + grace
            self._grace = grace
            self._ends_at = ends_at if self._ends_at is None else min(self._ends_at, ends_at)
        self._bell.set()

    def ring(self) -> None:
        """A job has ended."""
        if self.was_asked:
            self._bell.set()

    def run(self) -> bool:
        """Bring all that runs to an end. False when handlers had to be given up."""
        self._slots.ask_to_stop()
        self._producer.give_back_unstarted()
        is_cancelled = False
        while self._slots.has_open:
            self._settle()
            left = self._left()
            if left <= -OVERTIME:
                break
            if not is_cancelled and left <= min(CLEAN_UP, (self._grace or 0) / 4):
                self._slots.cancel_tasks()
                is_cancelled = True
            self._wait(is_cancelled, left)
        is_clean = not self._slots.has_open
        self._slots.abandon()
        self._settle_the_rest()
        return is_clean

    @property
    def left(self) -> float:
        """Seconds of the grace that are left."""
        return max(self._left(), 0.0)

    def _left(self) -> float:
        return float("inf") if self._ends_at is None else self._ends_at - time.monotonic()

    def _wait(self, is_cancelled: bool, left: float) -> None:
        until = left + OVERTIME if is_cancelled else left - min(CLEAN_UP, (self._grace or 0) / 4)
        self._bell.wait(min(max(until, 0.001), 1.0))
        self._bell.clear()

    def _settle(self) -> bool:
        try:
            self._producer.settle()
        except StoreError as error:
            logger.warning("an outcome is not stored yet: %s", error)
            return False
        except Exception:
            logger.exception("an outcome is not stored yet")
            return False
        return True

    def _settle_the_rest(self) -> None:
        started = time.monotonic()
        patience = PATIENCE_WITHOUT_GRACE if self._ends_at is None else max(self._left() + OVERTIME, 0) + LAST_WRITES
        while self._producer.has_unsettled and not (self._settle() and not self._producer.has_unsettled):
            if time.monotonic() - started > patience:
                logger.error("outcomes could not be stored before the end: their leases will run out")
                return
            self._bell.wait(0.02)
            self._bell.clear()
