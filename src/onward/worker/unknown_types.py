"""Says once that jobs wait for a handler that nobody here has: a job was renamed without an alias, or its module is not loaded."""

from __future__ import annotations

import logging

from onward.driver import Store
from onward.inspection import JobFilter
from onward.registry import Registry
from onward.status import Status

logger = logging.getLogger("onward.worker")

WAITING = (Status.QUEUED, Status.RETRYING)
LOOK_EVERY = 10
"""Sweeps. The question counts all that is outstanding, so it is not asked at each."""
SAMPLE = 50


class UnknownTypes:
    """One warning a type, and only for jobs that are set aside: those of an application with queues of its own are nobody's fault."""

    def __init__(self, store: Store, definitions: Registry) -> None:
        self._store = store
        self._definitions = definitions
        self._looks = 0
        self._told: set[str] = set()

    def look(self) -> None:
        """Look at the first call and at each tenth after it. Raises ``StoreError``."""
        self._looks += 1
        if self._looks % LOOK_EVERY == 1:
            self.look_now()

    def look_now(self) -> None:
        """Ask the store, and say what was not said yet. Raises ``StoreError``."""
        rows = self._store.answer("outstanding").rows
        for name in sorted({str(row[0]) for row in rows if row[1] in WAITING}):
            if name in self._definitions or name in self._told:
                continue
            where = JobFilter(types=(name,), statuses=WAITING)
            if any(job.blocked_by == "type" for job in self._store.find(where, limit=SAMPLE)):
                self._told.add(name)
                logger.warning(
                    "no job of this application is called %r, and of that type %d wait: load the module that defines it, "
                    "or give the job that replaces it this name as an alias",
                    name,
                    self._store.count(where),
                )
