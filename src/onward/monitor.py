"""``app.metrics``: what the queue does and why, for programs and for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from onward.awaited import awaited
from onward.definition import Duration
from onward.driver import Store
from onward.durations import parse_duration
from onward.errors import InvalidTime
from onward.metrics import LATEST, Metrics, flows
from onward.rollups import minute_of

WINDOW = timedelta(hours=1)
SHORTEST_WINDOW = timedelta(minutes=1)


def look(store: Store, window: timedelta = WINDOW) -> Metrics:
    """What waits and runs in a store just now, and what ended within the window before."""
    now = store.clock.now()
    rollups = store.rollups(now - window)
    begin = minute_of(now - LATEST)
    latest = now - datetime.fromisoformat(f"{begin}+00:00")
    return Metrics(
        at=now,
        window=window,
        backlog=tuple(store.backlog()),
        flows=tuple(flows(rollups, window)),
        latest=tuple(flows((one for one in rollups if one.minute >= begin), min(latest, window))),
    )


class Monitor:
    """The metrics of a store. Each verb has a twin for code on an event loop, such as ``alook``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def look(self, window: Duration = WINDOW) -> Metrics:
        """What waits and runs just now, and what ended within the window before, by queue and type.

        Cheap however many jobs there are: nothing that is done with is counted. Raises ``InvalidTime`` for a window under a minute.
        """
        length = parse_duration(window)
        if length < SHORTEST_WINDOW:
            raise InvalidTime("what ended is counted by the minute: a window is 1m or longer")
        return look(self._store, length)

    def prometheus(self, names: Mapping[str, str] | None = None) -> str:
        """The same as text for a Prometheus server, with counters that outlive every process and all pruning.

        ``names`` are names of your own in place of ours: ``{"onward_jobs_due": "mail_queue_depth"}``. Raises ``InvalidDefinition``.
        """
        from onward.telemetry.prometheus import prometheus_text

        return prometheus_text(look(self._store), self._store.totals(), names=names)

    alook = awaited(look)
    aprometheus = awaited(prometheus)
