"""Says that the worker is there, looks whether rules of alerts are broken, and tells of alerts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from onward.alert_rules import AlertRules
from onward.driver import Store
from onward.errors import StoreError
from onward.look import look
from onward.presence import SEEN_EVERY, Presence
from onward.sight_verbs import JobsFor

logger = logging.getLogger("onward.worker")
LOOKS_EVERY = timedelta(seconds=30)
"""How often a worker looks for what it has to tell."""
NEVER = timedelta(days=3650)
SLACK = 10.0
"""Seconds by which a worker may say early that it is there, rather than half a minute late."""


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
        self._announces_at = float("-inf")
        self._has_left = False

    def tick(self) -> float:
        self._announce()
        rules = self._rules
        due = self._store.look_out(NEVER if rules is None else rules.every)
        if rules is not None and due.is_time_to_look and self._store.take_look(rules.every):
            self._store.judge(rules, look(self._store, rules.window))
            self._tell()
        elif due.has_untold:
            self._tell()
        return (LOOKS_EVERY if rules is None else min(LOOKS_EVERY, rules.every)).total_seconds()

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
            now = self._store.clock.monotonic()
            if self._presence is None or self._has_left or now < self._announces_at:
                return
            presence = self._presence()
            self._announced = presence.lease_owner
            self._store.announce(presence)
            self._announces_at = now + SEEN_EVERY.total_seconds() - SLACK

    def _tell(self) -> None:
        told = self._store.tell_alerts(self._jobs_for)
        for alert in told.opened:
            logger.log(_LEVELS[alert.severity], "alert %s (%s): %s", alert.id, alert.category, alert.message)
        for alert in told.resolved:
            logger.info("alert %s (%s) is over: %s", alert.id, alert.category, alert.message)


_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}
