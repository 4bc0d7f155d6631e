"""Deletes final jobs that are past their retention."""

from __future__ import annotations

from onward.driver import Store
from onward.inspection import Retention

BATCH = 1000
PAUSE_BETWEEN_BATCHES = 0.1


class Pruner:
    """One small batch a tick, so that other writers get their turn; goes on soon while there is more."""

    name = "pruner"

    def __init__(self, store: Store, retention: Retention, *, interval: float) -> None:
        self._store = store
        self._retention = retention
        self._interval = interval

    def tick(self) -> float:
        deleted = self._store.prune(self._retention, limit=BATCH)
        return PAUSE_BETWEEN_BATCHES if deleted >= BATCH else self._interval
