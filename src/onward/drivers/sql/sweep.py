"""Sweep, recovery and heartbeat as operations: what happens to claims whose process went silent or died."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from onward.drivers.sql.expire import expire
from onward.drivers.sql.rollups import count_unsettled
from onward.drivers.sql.rows import read_jobs, read_workable, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.settle import write_attempt, write_ending
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.drivers.sql.waits import let_go, shared_by
from onward.jobs import LONGEST_LEASE, Job
from onward.metrics import LOST
from onward.outcome import LEASE_RAN_OUT, PROCESS_DIED, Ending, Released, end_lost, end_settled, storable
from onward.status import Status
from onward.turn import Extended, Extension, Swept

EXPIRED_PER_SWEEP = 1000
UNBLOCKED_AT_ONCE = 5000


def extend(extensions: Sequence[Extension], now: datetime) -> Operation[Extended]:
    """Renew leases by fence, whether or not they have run out already."""
    renewed: list[Row] = []
    asked = [_renewal(one, now) for one in extensions if not one.began_isolated]
    if asked:
        renewed += yield Statement("renew", {"rows": as_json(asked), "now": write_instant(now)})
    beginning = [_renewal(one, now) for one in extensions if one.began_isolated]
    if beginning:
        renewed += yield Statement("begin_isolated", {"rows": as_json(beginning), "now": write_instant(now)})
    ours = {(id_, fence) for id_, fence, _, _ in renewed}
    return Extended(
        lost=frozenset(one.claim.id for one in extensions if one.claim.key not in ours),
        cancel_requested=frozenset(id_ for id_, _, asked_at, _ in renewed if asked_at is not None),
        held_up=frozenset(id_ for id_, _, _, is_held in renewed if is_held),
    )


def _renewal(extension: Extension, now: datetime) -> dict[str, Any]:
    return {
        "id": extension.claim.id,
        "fence": extension.claim.fence,
        "lease_until": write_instant(now + extension.claim.lease),
        "progress": None if extension.progress is None else storable(extension.progress),
    }


def sweep(now: datetime, ripe: Callable[[list[Row]], list[Row]] | None = None) -> Operation[Swept]:
    """Give back or dead-letter what ran out, and cancel what expired. ``ripe`` chooses among the rows of claims that ran out."""
    limits = {"now": write_instant(now), "too_far": write_instant(now + LONGEST_LEASE)}
    rows = yield Statement("run_out", limits)
    chosen = rows if ripe is None else ripe(rows)
    swept = yield from _end(chosen, now, LEASE_RAN_OUT)
    yield from _let_go(swept, now)
    yield from count_unsettled(LOST, _all_of(swept), now)
    yield from count_unsettled("dead_lettered", swept.dead_lettered, now)
    due = yield Statement("past_expiry", {"now": write_instant(now), "limit": EXPIRED_PER_SWEEP})
    expired = (yield from expire([row[0] for row in due], write_instant(now))) if due else []
    too_late = {job.id for job in expired}
    requeued = tuple(job for job in swept.requeued if job.id not in too_late)
    return replace(swept, requeued=requeued, expired=tuple(expired), suspected=len(rows) - len(chosen))


def recover(lease_owner: str, started: Collection[str], now: datetime) -> Operation[Swept]:
    """Take back the claims of a dead process. What had not started is given back, and its try does not count."""
    if any(row[0] == lease_owner for row in (yield Statement("workers"))):  # else nothing is written, which a reader could not
        yield Statement("withdraw_worker", {"lease_owner": lease_owner})
    rows = yield Statement("held", {"lease_owner": lease_owner})
    begun = frozenset(started)
    lost = yield from _end([row for row in rows if row[0] in begun], now, PROCESS_DIED)
    released = yield from _end([row for row in rows if row[0] not in begun], now, None)
    requeued, cancelled = lost.requeued + released.requeued, lost.cancelled + released.cancelled
    swept = replace(lost, requeued=_in_order(requeued), cancelled=_in_order(cancelled))
    yield from _let_go(swept, now)
    yield from count_unsettled(LOST, _all_of(lost), now)
    yield from count_unsettled("dead_lettered", lost.dead_lettered, now)
    return swept


def unblock(types: Collection[str], now: datetime) -> Operation[int]:
    """Let rows be claimed again that waited for their type to be known. At most ``UNBLOCKED_AT_ONCE``; says how many."""
    rows = yield Statement("unblock", {"types": as_json(sorted(types)), "now": write_instant(now), "limit": UNBLOCKED_AT_ONCE})
    return len(rows)


def _end(rows: list[Row], now: datetime, why: str | None) -> Operation[Swept]:
    """End these claims as lost; without a reason they are released."""
    jobs, unreadable = read_workable(rows)
    yield from set_aside(unreadable, write_instant(now))
    endings = {job.id: _ending(job, why) for job in jobs}
    if not jobs:
        return Swept()
    changes = [write_ending(job, endings[job.id], now) | {"lease_until": _lease_until(job)} for job in jobs]
    changed = yield Statement("lose", {"rows": as_json(changes), "now": write_instant(now)})
    after = sorted(read_jobs(changed)[0], key=lambda job: job.id)
    before = {job.id: job for job in jobs}
    yield Statement("write_history", {"rows": as_json([write_attempt(before[job.id], endings[job.id], now) for job in after])})
    freed = [job.id for job in after if job.status.is_final and job.idempotency_key is not None]
    if freed:
        yield Statement("free_keys", {"ids": as_json(freed)})
    return Swept(
        requeued=tuple(job for job in after if job.status is Status.QUEUED),
        dead_lettered=tuple(job for job in after if job.status is Status.DEAD_LETTER),
        cancelled=tuple(job for job in after if job.status is Status.CANCELLED),
    )


def _let_go(swept: Swept, now: datetime) -> Operation[None]:
    yield from let_go((shared_by(job, ended=job.status.is_final) for job in _all_of(swept)), now)


def _all_of(swept: Swept) -> tuple[Job, ...]:
    return swept.requeued + swept.dead_lettered + swept.cancelled


def _in_order(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(sorted(jobs, key=lambda job: job.id))


def _ending(job: Job, why: str | None) -> Ending:
    if why is not None:
        return end_lost(job, why)
    return end_settled(job, Released(), is_cancel_requested=job.cancel_requested_at is not None)


def _lease_until(job: Job) -> str | None:
    return None if job.lease_until is None else write_instant(job.lease_until)
