"""Claim: what is due goes to the worker that asks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from onward.drivers.memory.settle import expire, set_aside, why_not_workable
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.waits import admit_jobs, let_go, let_ripe, next_ripe, running_of_queue, shares
from onward.jobs import Job
from onward.status import Status
from onward.turn import BLOCKED_PER_TURN, Claim, Demand


class Taken(Struct, frozen=True):
    """What a claim took, and what it met on the way."""

    claims: tuple[Claim, ...]
    expired: tuple[Job, ...]
    next_due: timedelta | None
    blocked: int
    leaves_blocked: bool


class _Met(Struct):
    """What a claim has met so far."""

    rooms: dict[str, int]
    claims: list[Claim] = []
    expired: list[Job] = []
    blocked: int = 0
    refused: int = 0
    is_more_due: bool = False


def claim(tables: Tables, demand: Demand, now: datetime) -> Taken:
    """Give at most ``demand.slots`` due jobs to the owner, in order; set aside what it cannot run, end what is too late."""
    if demand.unblocks:
        for job in heapq.nsmallest(demand.slots, _blocked(tables, demand), key=lambda job: (-job.priority, job.scheduled_at, job.id)):
            tables.put_job(replace(job, blocked_by=None, updated_at=now))
    let_ripe(tables, now)
    rooms = _rooms(tables, now)
    met = _Met(rooms)
    expired = -1
    while len(met.expired) > expired:
        expired = len(met.expired)
        _take_due(tables, demand, now, met)
        let_go(tables, met.expired[expired:], now)  # whom they let go on asks in the same turn
    next_due = timedelta(0) if met.is_more_due else _next_due(tables, demand, now, rooms)
    for moment in (next_ripe(tables, now), _next_token(tables, rooms, now)):
        if moment is not None:
            next_due = min(max(moment - now, timedelta(0)), timedelta.max if next_due is None else next_due)
    return Taken(tuple(met.claims), tuple(met.expired), next_due, met.blocked, any(True for _ in _blocked(tables, demand)))


def _take_due(tables: Tables, demand: Demand, now: datetime, met: _Met) -> None:
    for job in _due(tables, demand, now):
        if met.rooms.get(job.queue, 1) <= 0:
            continue
        if job.expires_at is not None and job.expires_at <= now:
            met.expired.append(expire(tables, job, now))
        elif max(met.blocked, met.refused) >= BLOCKED_PER_TURN or (job.type in demand.types and len(met.claims) >= demand.slots):
            met.is_more_due = True
            break
        elif job.type not in demand.types:
            tables.put_job(replace(job, blocked_by="type", updated_at=now))
            met.blocked += 1
        elif objection := why_not_workable(job):
            set_aside(tables, job, objection, now)
        elif shares(job) and not admit_jobs(tables, [job], demand, now, room=1).let:
            met.refused += 1
        else:
            met.claims.append(_take(tables, job, demand, now))
            _spend(tables, met.rooms, job.queue, now)


def _rooms(tables: Tables, now: datetime) -> dict[str, int]:
    for (kind, _), state in list(tables.limits.items()):
        if kind == "queue" and state.now(now) != state:
            tables.put_limit(state.now(now), now)
    return {name: state.room(running_of_queue(tables, name), now) for (kind, name), state in tables.limits.items() if kind == "queue"}


def _spend(tables: Tables, rooms: dict[str, int], queue: str, now: datetime) -> None:
    if queue in rooms:
        rooms[queue] -= 1
        tables.put_limit(tables.limits["queue", queue].taken(1, now), now)


def _next_token(tables: Tables, rooms: dict[str, int], now: datetime) -> datetime | None:
    moments = [tables.limits["queue", queue].next_token(now) for queue, room in rooms.items() if room <= 0]
    return min((one for one in moments if one is not None), default=None)


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


def _next_due(tables: Tables, demand: Demand, now: datetime, rooms: dict[str, int]) -> timedelta | None:
    earliest = min((job.scheduled_at for job in _waiting(tables, demand) if rooms.get(job.queue, 1) > 0), default=None)
    return None if earliest is None else max(earliest - now, timedelta(0))
