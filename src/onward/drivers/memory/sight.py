"""What people and monitors see of a store in memory."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from onward.alerts import Alert, Told
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.verbs import VerbsOfWaits
from onward.errors import AlertNotFound
from onward.inspection import MOST_COUNTED
from onward.jobs import Job
from onward.metrics import Backlog, Lane, Total, add_rollups
from onward.outcome import storable
from onward.status import Status


class VerbsOfSight(VerbsOfWaits):
    """The part of the store that only looks."""

    def backlog(self) -> list[Backlog]:
        with self._reading() as tables:
            return _backlog(tables, self.clock.now())

    def totals(self) -> list[Total]:
        with self._reading() as tables:
            return add_rollups(tables.totals.values(), tables.uncounted())

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

    def tell_alerts(self) -> Told:
        with self._writing() as tables:
            found = sorted(tables.alerts.values(), key=lambda one: one.id)
            opened = [one for one in found if (one.id, "opened") not in tables.told]
            resolved = [one for one in found if one.resolved_at is not None and (one.id, "resolved") not in tables.told]
            tables.told |= {(one.id, "opened") for one in opened} | {(one.id, "resolved") for one in resolved}
        return Told(tuple(opened), tuple(resolved))


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
