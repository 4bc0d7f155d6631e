"""What people and monitors see, once for all SQL stores."""

from __future__ import annotations

from onward.drivers.sql import metrics
from onward.drivers.sql.verbs import VerbsOfWaits
from onward.metrics import Backlog, Total


class VerbsOfSight(VerbsOfWaits):
    """The part of a store that only looks."""

    def backlog(self) -> list[Backlog]:
        return self._look_up(lambda: metrics.backlog(self.clock.now()))

    def totals(self) -> list[Total]:
        return self._look_up(metrics.totals)
