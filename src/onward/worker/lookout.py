"""Says that the worker is there, looks whether rules of alerts are broken, and tells of alerts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from onward.alert_rules import AlertRules
from onward.driver import Store
from onward.errors import StoreError
from onward.look import look
from onward.presence import SEEN_EVERY, Presence
from onward.sight_verbs import JobsFor

logger = logging.getLogger("onward.worker")


class Lookout:
    """``presence`` gives what the worker says of itself; without it nobody is told that it is there.

    ``rules`` None leaves looking to others. ``jobs_for`` makes the jobs that tell others of alerts.
    """

    name = "lookout"

    def __init__(self, store: Store, rules: AlertRules | None, *, presence: Callable[[], Presence] | None, jobs_for: JobsFor) -> None:
        self._store = store
        self._rules = rules
        self._presence = presence
        self._jobs_for = jobs_for
        self._announcing = threading.Lock()
        self._announced: str | None = None
        self._has_left = False

    def tick(self) -> float:
        self._announce()
        if self._rules is not None and self._store.take_look(self._rules.every):
            self._store.judge(self._rules, look(self._store, self._rules.window))
        self._tell()
        every = SEEN_EVERY if self._rules is None else min(SEEN_EVERY, self._rules.every)
        return every.total_seconds()

    def leave(self) -> None:
        """Say that the worker is there no more. Whatever a running tick does, it does not come back."""
        with self._announcing:
            self._has_left = True
            if self._announced is None:
                return
            try:
                self._store.withdraw(self._announced)
            except StoreError as error:
                logger.debug("that this worker has ended could not be written down: %s", error)

    def _announce(self) -> None:
        with self._announcing:
            if self._presence is None or self._has_left:
                return
            presence = self._presence()
            self._announced = presence.lease_owner
            self._store.announce(presence)

    def _tell(self) -> None:
        told = self._store.tell_alerts(self._jobs_for)
        for alert in told.opened:
            logger.log(_LEVELS[alert.severity], "alert %s (%s): %s", alert.id, alert.category, alert.message)
        for alert in told.resolved:
            logger.info("alert %s (%s) is over: %s", alert.id, alert.category, alert.message)


_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}
