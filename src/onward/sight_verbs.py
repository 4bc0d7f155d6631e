"""The part of a store's contract that is there to be looked at: what waits and runs just now, and what has ever ended."""

from __future__ import annotations

from abc import ABC, abstractmethod

from onward.alerts import Alert, Told
from onward.metrics import Backlog, Total


class SightVerbs(ABC):
    """What people and monitors see. Nothing of it counts finished rows, and nothing that workers do needs it."""

    @abstractmethod
    def backlog(self) -> list[Backlog]:
        """What waits and runs just now, by queue and type, each count up to a bound."""

    @abstractmethod
    def totals(self) -> list[Total]:
        """What has ever ended, by queue, type and outcome. Counts only grow, whatever is pruned and whoever restarts."""

    @abstractmethod
    def alerts(self, *, is_open: bool | None = None, limit: int = 50, before: str | None = None) -> list[Alert]:
        """Read alerts, newest id first: those that are open, those that are over, or both. ``before`` is the last id of the page before."""

    @abstractmethod
    def alert(self, alert_id: str) -> Alert:
        """Read one. Raises ``AlertNotFound``."""

    @abstractmethod
    def acknowledge_alert(self, alert_id: str, *, actor: str = "") -> Alert:
        """Write down that somebody has seen it; who was first stays. Raises ``AlertNotFound``."""

    @abstractmethod
    def tell_alerts(self) -> Told:
        """Give the alerts that were opened, and those that were resolved, of which nobody was told yet. Each comes once, to one caller."""
