"""What people and monitors see, once for all SQL stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from onward.alert_rules import AlertRules
from onward.alerts import Alert, Told
from onward.attempts import MOST_LOOKED_AT, AttemptFilter, Attempts, Place
from onward.drivers.sql import alerts, attempts, failures, lookout, metrics
from onward.drivers.sql.verbs import VerbsOfWaits
from onward.inspection import DeadLetter
from onward.jobs import Job
from onward.metrics import Backlog, Metrics, Total
from onward.presence import KnownWorker, Presence
from onward.sight_verbs import Due, JobsFor, no_jobs
from onward.verdict import Verdict


class VerbsOfSight(VerbsOfWaits):
    """The part of a store that only looks."""

    def now(self) -> datetime:
        return self.clock.now()

    def backlog(self) -> list[Backlog]:
        now = self.now()
        return self._look_up(lambda: metrics.backlog(now))

    def due_before(self, job: Job) -> int:
        now = self.now()
        return self._look_up(lambda: metrics.due_before(job, now))

    def totals(self) -> list[Total]:
        return self._look_up(metrics.totals)

    def dead_letters(
        self, *, types: Sequence[str] = (), queues: Sequence[str] = (), limit: int = 1000, before: DeadLetter | None = None
    ) -> list[DeadLetter]:
        return self._look_up(lambda: failures.dead_letters(types, queues, limit, before))

    def attempts(self, where: AttemptFilter, *, limit: int = 50, before: Place | None = None, looks: int = MOST_LOOKED_AT) -> Attempts:
        return self._look_up(lambda: attempts.attempts(where, limit, before, looks))

    def alerts(self, *, is_open: bool | None = None, limit: int = 50, before: str | None = None) -> list[Alert]:
        return self._look_up(lambda: alerts.alerts(is_open, limit, before))

    def alert(self, alert_id: str) -> Alert:
        return self._look_up(lambda: alerts.alert(alert_id))

    def acknowledge_alert(self, alert_id: str, *, actor: str = "") -> Alert:
        return self._note(lambda now: alerts.acknowledge(alert_id, actor, now))

    def tell_alerts(self, jobs_for: JobsFor = no_jobs) -> Told:
        return self._change(lambda now: lookout.tell(now, jobs_for))

    def announce(self, presence: Presence) -> None:
        self._note(lambda now: lookout.announce(presence, now))

    def withdraw(self, lease_owner: str) -> None:
        self._note(lambda now: lookout.withdraw(lease_owner))

    def workers(self) -> list[KnownWorker]:
        return self._look_up(lookout.workers)

    def look_out(self, every: timedelta) -> Due:
        return self._look_up(lambda: lookout.look_out(every, self.clock.now()))

    def take_look(self, every: timedelta) -> bool:
        return self._note(lambda now: lookout.take_look(every, now))

    def judge(self, rules: AlertRules, look: Metrics) -> Verdict:
        return self._note(lambda now: lookout.judge_look(rules, look, now))
