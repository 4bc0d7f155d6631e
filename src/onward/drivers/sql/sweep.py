"""Sweep, recovery and heartbeat as operations: what happens to claims whose process went silent or died."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from onward.definition import LONGEST_LEASE
from onward.driver import Extended, Extension, Swept
from onward.drivers.sql.rows import read_job, read_jobs, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.jobs import Job
from onward.outcome import attempts_after_loss, lose
from onward.status import Status

EXPIRED_PER_SWEEP = 1000
UNBLOCKED_AT_ONCE = 5000


def extend(extensions: Sequence[Extension], now: datetime) -> Operation[Extended]:
    """Renew leases by fence, whether or not they have run out already."""
    rows = [(one.claim.id, one.claim.fence, write_instant(now + one.claim.lease), one.progress) for one in extensions]
    renewed = yield Statement("extend", {"rows": as_json(rows), "now": write_instant(now)})
    ours = {row[0] for row in renewed}
    return Extended(
        lost=frozenset(one.claim.id for one in extensions if one.claim.id not in ours),
        cancel_requested=frozenset(row[0] for row in renewed if row[1] is not None),
    )


def sweep(now: datetime) -> Operation[Swept]:
    """Give back or dead-letter what ran out, and cancel what expired."""
    limits = {"now": write_instant(now), "too_far": write_instant(now + LONGEST_LEASE)}
    rows = yield Statement("run_out", limits)
    swept = yield from _lose(rows, now, "lease lost: the worker {owner} stopped renewing it")
    due = yield Statement("past_expiry", {"now": write_instant(now), "limit": EXPIRED_PER_SWEEP})
    expired: list[Row] = []
    if due:
        expired = yield Statement("expire", {"ids": as_json([row[0] for row in due]), "now": write_instant(now)})
        yield Statement("free_keys", {"ids": as_json([row[0] for row in expired])})
    return Swept(requeued=swept.requeued, dead_lettered=swept.dead_lettered, expired=tuple(row[0] for row in expired))


def recover(lease_owner: str, started: Collection[str], now: datetime) -> Operation[Swept]:
    """Take back the claims of a dead process. What had not started is released, and that does not count."""
    rows = yield Statement("held", {"lease_owner": lease_owner})
    begun = frozenset(started)
    lost = yield from _lose([row for row in rows if row[0] in begun], now, "worker lost: the process {owner} died while it ran")
    released = yield from _lose([row for row in rows if row[0] not in begun], now, None)
    return Swept(requeued=lost.requeued + released.requeued, dead_lettered=lost.dead_lettered + released.dead_lettered)


def unblock(types: Collection[str], now: datetime) -> Operation[int]:
    """Let rows be claimed again that waited for their type to be known. At most ``UNBLOCKED_AT_ONCE``; says how many."""
    rows = yield Statement("unblock", {"types": as_json(sorted(types)), "now": write_instant(now), "limit": UNBLOCKED_AT_ONCE})
    return len(rows)


def _lose(rows: list[Row], now: datetime, reason: str | None) -> Operation[Swept]:
    """End these claims. Without a reason they are released: the try is given back."""
    if not rows:
        return Swept()
    now_text = write_instant(now)
    jobs, unreadable = read_jobs(rows)
    yield from set_aside(unreadable, now_text)
    changes = {job.id: _change(job, reason) for job in jobs}
    if not changes:
        return Swept()
    changed = yield Statement("lose", {"rows": as_json(list(changes.values())), "now": now_text})
    after = sorted((read_job(row) for row in changed), key=lambda job: job.id)
    before = {job.id: job for job in jobs}
    yield Statement("write_history", {"rows": as_json([_attempt(before[job.id], job, reason, now_text) for job in after])})
    freed = [job.id for job in after if job.status.is_final and job.idempotency_key is not None]
    if freed:
        yield Statement("free_keys", {"ids": as_json(freed)})
    return Swept(
        requeued=tuple(job for job in after if job.status is Status.QUEUED),
        dead_lettered=tuple(job for job in after if job.status is Status.DEAD_LETTER),
    )


def _change(job: Job, reason: str | None) -> tuple[Any, ...]:
    status, attempts, error = Status.QUEUED, max(job.attempts - 1, 0), None
    if reason is not None:
        status, attempts, error = lose(job), attempts_after_loss(job), reason.format(owner=job.lease_owner)
    if job.cancel_requested_at is not None:
        status, error = Status.CANCELLED, "cancelled while it ran"
    lease_until = None if job.lease_until is None else write_instant(job.lease_until)
    return (job.id, job.fence, lease_until, status.value, attempts, int(reason is not None), error)


def _attempt(before: Job, after: Job, reason: str | None, now_text: str) -> tuple[Any, ...]:
    started = None if before.started_at is None else write_instant(before.started_at)
    outcome = "lost" if reason is not None else "released"
    error = None if reason is None else reason.format(owner=before.lease_owner)
    return (before.id, before.fence, before.attempts, before.lease_owner, outcome, error, 0, 0, started, now_text)
