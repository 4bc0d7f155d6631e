"""Claim: what is due goes to the worker that asks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from onward.drivers.memory.settle import expire, set_aside, why_not_workable
from onward.drivers.memory.tables import Tables
from onward.jobs import Job
from onward.status import Status
from onward.turn import TYPES_BLOCKED_PER_TURN, Claim, Demand


class Taken(Struct, frozen=True):
    """What a claim took, and what it met on the way."""

    claims: tuple[Claim, ...]
    expired: tuple[Job, ...]
    next_due: timedelta | None
    blocked: int
    leaves_blocked: bool


def claim(tables: Tables, demand: Demand, now: datetime) -> Taken:
    """Give at most ``demand.slots`` due jobs to the owner, in order; set aside what it cannot run, end what is too late."""
    if demand.unblocks:
        for job in heapq.nsmallest(demand.slots, _blocked(tables, demand), key=lambda job: (-job.priority, job.scheduled_at, job.id)):
            tables.put_job(replace(job, blocked_by=None, updated_at=now))
    claims: list[Claim] = []
    expired: list[Job] = []
    blocked, is_more_due = 0, False
    for job in _due(tables, demand, now):
        if job.expires_at is not None and job.expires_at <= now:
            expired.append(expire(tables, job, now))
        elif (blocked >= TYPES_BLOCKED_PER_TURN) if job.type not in demand.types else (len(claims) >= demand.slots):
            is_more_due = True
            break
        elif job.type not in demand.types:
            tables.put_job(replace(job, blocked_by="type", updated_at=now))
            blocked += 1
        elif objection := why_not_workable(job):
            set_aside(tables, job, objection, now)
        else:
            claims.append(_take(tables, job, demand, now))
    next_due = timedelta(0) if is_more_due else _next_due(tables, demand, now)
    return Taken(tuple(claims), tuple(expired), next_due, blocked, any(True for _ in _blocked(tables, demand)))


def _due(tables: Tables, demand: Demand, now: datetime) -> Iterator[Job]:
    """Due jobs, lazily and in order: a heap gives the first few without sorting the rest."""
    heap = [(-job.priority, job.scheduled_at, job.id) for job in _waiting(tables, demand) if job.scheduled_at <= now]
    heapq.heapify(heap)
    while heap:
        yield tables.jobs[heapq.heappop(heap)[2]]


def _waiting(tables: Tables, demand: Demand) -> Iterator[Job]:
    return (job for job in _served(tables, demand, tables.waiting) if job.queue not in tables.paused)


def _blocked(tables: Tables, demand: Demand) -> Iterator[Job]:
    return (job for job in _served(tables, demand, tables.blocked) if job.type in demand.types)


def _served(tables: Tables, demand: Demand, ids: Iterable[str]) -> Iterator[Job]:
    for job_id in ids:
        job = tables.jobs[job_id]
        if not demand.queues or job.queue in demand.queues:
            yield job


def _take(tables: Tables, job: Job, demand: Demand, now: datetime) -> Claim:
    lease = demand.types[job.type]
    taken = replace(
        job,
        status=Status.IN_PROGRESS,
        attempts=job.attempts + 1,
        fence=job.fence + 1,
        isolated=job.isolated or job.lost_leases > 0,
        ran_isolated=False,
        lease_owner=demand.lease_owner,
        lease_until=now + lease,
        started_at=now,
        updated_at=now,
    )
    return Claim(tables.put_job(taken), lease)


def _next_due(tables: Tables, demand: Demand, now: datetime) -> timedelta | None:
    earliest = min((job.scheduled_at for job in _waiting(tables, demand)), default=None)
    return None if earliest is None else max(earliest - now, timedelta(0))
