"""What people and monitors see of a store in memory."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from onward.drivers.memory.tables import Tables
from onward.drivers.memory.verbs import VerbsOfWaits
from onward.inspection import MOST_COUNTED
from onward.jobs import Job
from onward.metrics import Backlog, Lane, Total, add_rollups
from onward.status import Status


class VerbsOfSight(VerbsOfWaits):
    """The part of the store that only looks."""

    def backlog(self) -> list[Backlog]:
        with self._reading() as tables:
            return _backlog(tables, self.clock.now())

    def totals(self) -> list[Total]:
        with self._reading() as tables:
            return add_rollups(tables.totals.values(), tables.uncounted())


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
