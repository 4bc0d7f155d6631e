"""What keeps the store well: sweep, recover, prune, tidy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from onward.admission import Constraint
from onward.drivers.memory import actions
from onward.drivers.memory.settle import expire, give_back, is_lost, set_aside, take_back, why_not_workable
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.waits import forget_idle, let_go, recheck
from onward.inspection import IDLE_FOR, Retention
from onward.jobs import LONGEST_LEASE, Job
from onward.metrics import LOST
from onward.outcome import LEASE_RAN_OUT, PROCESS_DIED
from onward.pruning import Due, Ended, Look
from onward.rollups import MERGED_AFTER, MERGED_WITHIN, Cell, Rollup, minute_of, summed
from onward.status import Status
from onward.turn import Swept


def sweep(tables: Tables, types: Collection[str], now: datetime, constraints: Mapping[str, Constraint]) -> Swept:
    """Take back what lost its lease, end what expired, and let jobs of ``types`` run again."""
    lost = [job for job in tables.jobs.values() if is_lost(job, now, LONGEST_LEASE)]
    returned = [take_back(tables, job, LEASE_RAN_OUT, now) for job in _workable(tables, lost, now)]
    let_go(tables, returned, now)
    _count_lost(tables, returned, now)
    too_late = [job for job in tables.jobs.values() if job.status.is_claimable and job.expires_at is not None and job.expires_at <= now]
    expired = tuple(expire(tables, job, now) for job in too_late)
    let_go(tables, expired, now)
    tables.count_unsettled("expired", expired, now)
    blocked = [job for job in tables.jobs.values() if job.blocked_by == "type" and job.type in types]
    for job in blocked:
        tables.put_job(replace(job, blocked_by=None, updated_at=now))
    too_late_after_all = {job.id for job in expired}
    unblocked = len(blocked) + recheck(tables, now, types, constraints)
    return _swept([job for job in returned if job.id not in too_late_after_all], expired=expired, unblocked=unblocked)


def recover(tables: Tables, lease_owner: str, started: Collection[str], now: datetime) -> Swept:
    """Take back every claim of a process that is known to be dead."""
    tables.remove_worker(lease_owner)
    claimed = [job for job in tables.jobs.values() if job.status is Status.IN_PROGRESS and job.lease_owner == lease_owner]
    workable = _workable(tables, claimed, now)
    returned = [take_back(tables, job, PROCESS_DIED, now) if job.id in started else give_back(tables, job, now) for job in workable]
    let_go(tables, returned, now)
    _count_lost(tables, [job for job in returned if job.id in started], now)
    return _swept(returned)


def _count_lost(tables: Tables, lost: Sequence[Job], now: datetime) -> None:
    tables.count_unsettled(LOST, lost, now)
    tables.count_unsettled("dead_lettered", [job for job in lost if job.status is Status.DEAD_LETTER], now)


def _workable(tables: Tables, jobs: Iterable[Job], now: datetime) -> Iterator[Job]:
    """Those of these jobs that a worker can work with; the others are set aside."""
    for job in jobs:
        if reason := why_not_workable(job):
            set_aside(tables, job, reason, now)
        else:
            yield job


def finished(tables: Tables, look: Look, now: datetime) -> list[Ended]:
    """Finished jobs, the oldest first."""
    before = now - look.age
    found = [
        Ended(job.id, job.type, job.queue, job.finished_at, now - job.finished_at)
        for job in tables.jobs.values()
        if job.status is look.status
        and job.finished_at is not None
        and job.finished_at <= before
        and (look.since is None or job.finished_at >= look.since)
    ]
    return sorted(found, key=lambda one: (one.finished_at, one.id))[: look.limit]


def delete_finished(tables: Tables, due: Due) -> int:
    """Delete those of these that are what they were."""
    deleted = 0
    for job_id in due.ids:
        job = tables.jobs.get(job_id)
        if job is not None and job.status is due.status and job.finished_at is not None and job.finished_at <= due.upto:
            tables.remove_job(job)
            deleted += 1
    return deleted


def tidy(tables: Tables, retention: Retention, limit: int, now: datetime) -> bool:
    """Delete what is over beside jobs, and make less of the rollups. Says whether there may be more to delete."""
    for name in [name for name, holder in tables.keys.items() if not holder.holds_at(now)]:
        tables.remove_key(name)
    _merge_rollups(tables, now, retention.rollups)
    deleted = (actions.prune(tables, retention.actions, limit, now), _prune_alerts(tables, retention.alerts, limit, now))
    forget_idle(tables, now - IDLE_FOR)
    return max(deleted) >= limit


def _prune_alerts(tables: Tables, kept_for: timedelta | None, limit: int, now: datetime) -> int:
    if kept_for is None:
        return 0
    over = [(one.resolved_at, one.id) for one in tables.alerts.values() if one.resolved_at and one.resolved_at <= now - kept_for]
    for _, alert_id in sorted(over)[:limit]:
        tables.remove_alert(tables.alerts[alert_id])
    return min(len(over), limit)


def _merge_rollups(tables: Tables, now: datetime, kept_for: timedelta | None) -> None:
    """Make one row of those of all workers for minutes that nobody writes any more, and delete those past their retention."""
    since, before = minute_of(now - MERGED_WITHIN), minute_of(now - MERGED_AFTER)
    old: dict[Cell, list[Rollup]] = defaultdict(list)
    for one in tables.rollups.values():
        if since <= one.minute < before:
            old[one.cell].append(one)
    for crowd in old.values():
        if len(crowd) > 1:
            for one in crowd:
                tables.remove_rollup(one)
            (merged,) = summed(crowd)
            tables.put_rollup(merged)
    tables.count_totals(before)
    for one in list(tables.rollups.values()):
        if kept_for is not None and one.minute < minute_of(now - max(kept_for, MERGED_AFTER)):
            tables.remove_rollup(one)


def _swept(returned: Iterable[Job], *, expired: tuple[Job, ...] = (), unblocked: int = 0) -> Swept:
    jobs = sorted(returned, key=lambda job: job.id)
    return Swept(
        requeued=tuple(job for job in jobs if job.status is Status.QUEUED),
        dead_lettered=tuple(job for job in jobs if job.status is Status.DEAD_LETTER),
        cancelled=tuple(job for job in jobs if job.status is Status.CANCELLED),
        expired=expired,
        unblocked=unblocked,
    )
