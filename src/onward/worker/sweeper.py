"""Takes back what dead workers held."""

from __future__ import annotations

import logging
from datetime import timedelta

from onward.driver import Store
from onward.registry import Registry
from onward.worker.loop import Idle
from onward.worker.pulse import Pulse
from onward.worker.reports import Reports
from onward.worker.unknown_types import UnknownTypes

logger = logging.getLogger("onward.worker")


PATIENCE = timedelta(seconds=3)
"""A worker looks once a second whether a row is free again whose lease it could not renew."""


class Sweeper:
    """One sweep each ``interval`` seconds, at any worker; any number may sweep at once."""

    name = "sweeper"

    def __init__(self, store: Store, definitions: Registry, pulse: Pulse, *, reports: Reports, interval: float) -> None:
        self._store = store
        self._definitions = definitions
        self._pulse = pulse
        self._reports = reports
        self._interval = interval
        self._unknown = UnknownTypes(store, definitions)
        self._has_set_aside = False
        self._is_to_look = False

    def note_set_aside(self) -> bool:
        """This worker has set aside jobs of a type that it does not know. Says whether for the first time: then a tick should come soon."""
        is_first = not self._has_set_aside
        self._has_set_aside = True
        self._is_to_look = self._is_to_look or is_first
        return is_first

    def look_at_last(self) -> None:
        """Before the worker ends by itself: say which jobs it leaves behind. Raises ``StoreError``."""
        if self._has_set_aside:
            self._unknown.look_now()

    def tick(self) -> float:
        if not self._pulse.allows_sweep():
            return Idle(min(self._pulse.interval, self._interval))
        swept = self._store.sweep(self._definitions.leases(), constraints=self._definitions.constraints(), patience=PATIENCE)
        for job in swept.requeued:
            logger.warning("job %s of type %s was taken back from a worker that is gone", job.id, job.type)
        for job in swept.dead_lettered:
            logger.error("job %s of type %s is dead-lettered: every worker that ran it was lost", job.id, job.type)
        for job in swept.cancelled:
            logger.info("job %s of type %s is cancelled, as was asked for: the worker that ran it is gone", job.id, job.type)
        self._reports.swept(swept)
        if self._is_to_look:
            self._is_to_look = False
            self._unknown.look_now()
        self._unknown.look()
        return min(self._interval, PATIENCE.total_seconds()) if swept.suspected else self._interval
