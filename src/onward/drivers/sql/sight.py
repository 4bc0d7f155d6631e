"""What people and monitors see, once for all SQL stores."""

from __future__ import annotations

from onward.alerts import Alert, Told
from onward.drivers.sql import alerts, metrics
from onward.drivers.sql.verbs import VerbsOfWaits
from onward.metrics import Backlog, Total


class VerbsOfSight(VerbsOfWaits):
    """The part of a store that only looks."""

    def backlog(self) -> list[Backlog]:
        return self._look_up(lambda: metrics.backlog(self.clock.now()))

    def totals(self) -> list[Total]:
        return self._look_up(metrics.totals)

    def alerts(self, *, is_open: bool | None = None, limit: int = 50, before: str | None = None) -> list[Alert]:
        return self._look_up(lambda: alerts.alerts(is_open, limit, before))

    def alert(self, alert_id: str) -> Alert:
        return self._look_up(lambda: alerts.alert(alert_id))

    def acknowledge_alert(self, alert_id: str, *, actor: str = "") -> Alert:
        return self._change(lambda now: alerts.acknowledge(alert_id, actor, now))

    def tell_alerts(self) -> Told:
        if not self._look_up(alerts.any_untold):
            return Told()
        return self._change(alerts.tell)
