"""``app.metrics`` and ``app.alerts``: what the queue does and why, and what people should know of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from onward.actions import check_actor
from onward.alerts import Alert
from onward.awaited import awaited
from onward.definition import Duration
from onward.driver import Store
from onward.durations import parse_duration
from onward.errors import InvalidTime
from onward.look import WINDOW, look
from onward.metrics import Metrics
from onward.verbs import check_before, check_limit

SHORTEST_WINDOW = timedelta(minutes=1)


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


class Alerts:
    """What people should know of: one alert is open for each cause, until it is over. Each verb has an awaited twin, such as ``alist``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, *, is_open: bool | None = True, limit: int = 50, before: str | None = None) -> list[Alert]:
        """Those that are open, newest first; with ``is_open=False`` those that are over, with None both.

        ``before`` is the last id of the page before. Those that are over are kept for ``Retention(alerts="90d")``. Raises
        ``InvalidDefinition`` for what cannot be asked.
        """
        page = None if before is None else check_before(before, "an alert")
        return self._store.alerts(is_open=is_open, limit=check_limit(limit), before=page)

    def get(self, alert_id: str) -> Alert:
        """One of them. Raises ``AlertNotFound``."""
        return self._store.alert(alert_id)

    def acknowledge(self, alert_id: str, *, actor: str = "") -> Alert:
        """Write down that somebody has seen it. Who was first stays. Raises ``AlertNotFound``."""
        return self._store.acknowledge_alert(alert_id, actor=check_actor(actor))

    alist = awaited(list)  # noqa: A003 - the method is meant
    aget = awaited(get)
    aacknowledge = awaited(acknowledge)
