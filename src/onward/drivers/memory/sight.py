"""What people and monitors see of a store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from onward.alert_rules import AlertRules
from onward.alerts import Alert, Told
from onward.attempts import MOST_LOOKED_AT, AttemptFilter, Attempts, Place
from onward.drivers.memory.alerts import open_alert, resolve_alert
from onward.drivers.memory.attempts import find_attempts
from onward.drivers.memory.enqueue import enqueue
from onward.drivers.memory.questions import matching
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.verbs import VerbsOfWaits
from onward.errors import AlertNotFound
from onward.inspection import MOST_COUNTED, DeadLetter, JobFilter
from onward.jobs import Job
from onward.metrics import Backlog, Lane, Metrics, Total, add_rollups
from onward.outcome import storable
from onward.presence import FORGOTTEN_AFTER, KnownWorker, Presence
from onward.sight_verbs import Due, JobsFor, no_jobs
from onward.status import Status
from onward.verdict import Verdict, as_alerts_are, judge


class VerbsOfSight(VerbsOfWaits):
    """The part of the store that only looks."""

    def now(self) -> datetime:
        return self.clock.now()

    def backlog(self) -> list[Backlog]:
        with self._reading() as tables:
            return _backlog(tables, self.clock.now())

    def due_before(self, job: Job) -> int:
        with self._reading() as tables:
            now, place = self.clock.now(), (-job.priority, job.scheduled_at, job.id)
            due = (one for one in map(tables.jobs.__getitem__, tables.waiting) if one.queue == job.queue and one.scheduled_at <= now)
            return min(sum((-one.priority, one.scheduled_at, one.id) < place for one in due), MOST_COUNTED)

    def totals(self) -> list[Total]:
        with self._reading() as tables:
            return add_rollups(tables.totals.values(), tables.uncounted())

    def dead_letters(
        self, *, types: Sequence[str] = (), queues: Sequence[str] = (), limit: int = 1000, before: DeadLetter | None = None
    ) -> list[DeadLetter]:
        where = JobFilter(statuses=(Status.DEAD_LETTER,), types=tuple(types), queues=tuple(queues))
        with self._reading() as tables:
            jobs = [job for job in tables.jobs.values() if job.status is Status.DEAD_LETTER]
        found = [_dead_letter(job, job.finished_at) for job in matching(jobs, where) if job.finished_at is not None]
        found.sort(key=_end, reverse=True)
        return [one for one in found if before is None or _end(one) < _end(before)][:limit]

    def attempts(self, where: AttemptFilter, *, limit: int = 50, before: Place | None = None, looks: int = MOST_LOOKED_AT) -> Attempts:
        with self._reading() as tables:
            return find_attempts(tables, where, limit, before, looks)

    def alerts(self, *, is_open: bool | None = None, limit: int = 50, before: str | None = None) -> list[Alert]:
        with self._reading() as tables:
            found = sorted(tables.alerts.values(), key=lambda one: one.id, reverse=True)
        return [one for one in found if (is_open is None or (one.resolved_at is None) == is_open) and (before is None or one.id < before)][
            :limit
        ]

    def alert(self, alert_id: str) -> Alert:
        with self._reading() as tables:
            if alert_id not in tables.alerts:
                raise AlertNotFound(storable(alert_id))
            return tables.alerts[alert_id]

    def acknowledge_alert(self, alert_id: str, *, actor: str = "") -> Alert:
        with self._writing() as tables:
            found = tables.alerts.get(alert_id)
            if found is None:
                raise AlertNotFound(storable(alert_id))
            if found.acknowledged_at is None:
                found = replace(found, acknowledged_at=self.clock.now(), acknowledged_by=actor)
                tables.put_alert(found)
            return found

    def tell_alerts(self, jobs_for: JobsFor = no_jobs) -> Told:
        with self._writing() as tables:
            found = sorted(tables.alerts.values(), key=lambda one: one.id)
            opened = [one for one in found if (one.id, "opened") not in tables.told]
            resolved = [one for one in found if one.resolved_at is not None and (one.id, "resolved") not in tables.told]
            told = Told(tuple(opened), tuple(resolved))
            jobs = jobs_for(told)
            if jobs:
                enqueue(tables, jobs, self.clock.now())
            tables.told |= {(one.id, "opened") for one in opened} | {(one.id, "resolved") for one in resolved}
        if jobs:
            self.wake()
        return told

    def announce(self, presence: Presence) -> None:
        with self._writing() as tables:
            now = self.clock.now()
            was = tables.workers.get(presence.lease_owner)
            fields = {name: getattr(presence, name) for name in Presence.__struct_fields__}
            tables.put_worker(KnownWorker(**fields, started_at=now if was is None else was.started_at, seen_at=now))
            for one in list(tables.workers.values()):
                if abs(now - one.seen_at) > FORGOTTEN_AFTER:
                    tables.remove_worker(one.lease_owner)

    def withdraw(self, lease_owner: str) -> None:
        with self._writing() as tables:
            tables.remove_worker(lease_owner)

    def workers(self) -> list[KnownWorker]:
        with self._reading() as tables:
            return sorted(tables.workers.values(), key=lambda one: one.lease_owner)

    def look_out(self, every: timedelta) -> Due:
        with self._reading() as tables:
            last = {(one.id, "opened" if one.resolved_at is None else "resolved") for one in tables.alerts.values()}
            return Due(_is_time(tables.looked_at, self.clock.now(), every), bool(last - tables.told))

    def take_look(self, every: timedelta) -> bool:
        with self._writing() as tables:
            now, last = self.clock.now(), tables.looked_at
            if is_time := _is_time(last, now, every):
                tables.looked_at = now
            return is_time and last is not None

    def judge(self, rules: AlertRules, look: Metrics) -> Verdict:
        with self._writing() as tables:
            verdict = judge(
                rules, look, as_alerts_are(tables.conditions, (one for one in tables.alerts.values() if one.resolved_at is None))
            )
            for alert in verdict.opened:
                open_alert(tables, alert, self.clock.now())
            for cause in verdict.resolved:
                resolve_alert(tables, cause, self.clock.now())
            tables.conditions = {one.cause: one for one in verdict.conditions}
            return verdict


def _is_time(last: datetime | None, now: datetime, every: timedelta) -> bool:
    return last is None or not now - every < last <= now


def _dead_letter(job: Job, finished_at: datetime) -> DeadLetter:
    return DeadLetter(id=job.id, type=job.type, queue=job.queue, attempts=job.attempts, finished_at=finished_at, error=job.error)


def _end(one: DeadLetter) -> tuple[datetime, str]:
    return one.finished_at, one.id


def _backlog(tables: Tables, now: datetime) -> list[Backlog]:
    """As other stores count, without their bounds on what is looked at."""
    found: dict[Lane, Backlog] = {}
    for job in tables.jobs.values():
        if (after := _with(found.get((job.queue, job.type)) or Backlog(queue=job.queue, type=job.type), job, now)) is not None:
            found[after.lane] = after
    return [_bounded(found[lane]) for lane in sorted(found)]


def _with(was: Backlog, job: Job, now: datetime) -> Backlog | None:
    if job.status is Status.IN_PROGRESS:
        return replace(was, in_progress=was.in_progress + 1)
    if job.status is Status.DEAD_LETTER:
        return replace(was, dead_letters=was.dead_letters + 1)
    if not job.status.is_claimable or (job.blocked_by is None and job.scheduled_at > now):
        return None
    oldest = min(was.oldest_due_at or job.scheduled_at, job.scheduled_at)
    if job.blocked_by is None:
        return replace(was, due=was.due + 1, oldest_due_at=oldest)
    return replace(was, blocked={**was.blocked, job.blocked_by: was.blocked.get(job.blocked_by, 0) + 1}, oldest_due_at=oldest)


def _bounded(one: Backlog) -> Backlog:
    counts = (one.due, one.dead_letters, *one.blocked.values())
    if max(counts) < MOST_COUNTED:
        return one
    blocked = {why: min(count, MOST_COUNTED) for why, count in one.blocked.items()}
    return replace(one, due=min(one.due, MOST_COUNTED), dead_letters=min(one.dead_letters, MOST_COUNTED), blocked=blocked, is_capped=True)
