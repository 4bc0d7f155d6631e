"""Why a job is not running, in one sentence."""

from __future__ import annotations

from datetime import datetime

from onward.cli.output import relative, rough, utc
from onward.jobs import Job
from onward.outcome import EXPIRED
from onward.status import Status


def explain(job: Job, now: datetime, onward: str = "onward", paused_at: datetime | None = None, *, key_held_by: str | None = None) -> str:
    """Say why the job is not running now, and what would change that.

    ``now`` is by the store's clock, ``onward`` the command as it has to be typed to reach this store, ``paused_at`` since when the job's
    queue is paused, ``key_held_by`` the live job that has the job's key.
    """
    match job.status:
        case Status.QUEUED | Status.RETRYING:
            return _waiting(job, now, onward, paused_at)
        case Status.IN_PROGRESS:
            return _running(job, now)
        case Status.DEAD_LETTER | Status.CANCELLED if key_held_by not in (None, job.id):
            return (
                f"It will not run again, and a retry is refused while job {key_held_by} holds its key {job.idempotency_key!r}: "
                f"'{onward} jobs show {key_held_by}' tells of that one."
            )
        case Status.DEAD_LETTER:
            return f"It will not run again by itself. '{onward} jobs retry {job.id}' queues it again with all its tries."
        case Status.CANCELLED if job.error == EXPIRED:
            return f"It was not run before it expired. '{onward} jobs retry {job.id}' queues it, and it may run at any time then."
        case Status.CANCELLED:
            return f"It was cancelled. '{onward} jobs retry {job.id}' queues it again."
        case _:
            return "It is done. To run it again, enqueue a copy."


def _waiting(job: Job, now: datetime, onward: str, paused_at: datetime | None) -> str:
    if job.expires_at is not None and job.expires_at <= now:
        return f"It expired {_when(job.expires_at, now)}; the next worker that looks at its queue cancels it."
    if job.scheduled_at > now:
        after = "after its last failure, " if job.status is Status.RETRYING else ""
        return f"It is due {after}{_when(job.scheduled_at, now)}. '{onward} jobs run {job.id}' makes it due now."
    if paused_at is not None:
        since = f"{utc(paused_at)} ({relative(paused_at, now)})"
        return f"It is due, but queue {job.queue!r} is paused since {since}: '{onward} queues resume {job.queue}' lets it start."
    match job.blocked_by:
        case "type":
            return f"It is due, but no worker that served queue {job.queue!r} knew the type {job.type!r}: start one whose application does."
        case "breaker":
            return f"It is due, but the breaker {job.breaker!r} is open."
        case "limit":
            return f"It is due, but as many jobs with the concurrency key {job.concurrency_key!r} run as may at once."
        case "serial":
            return f"It is due, but an earlier job with the serial key {job.serial_key!r} is not finished."
        case _:
            since = f"{rough(now - job.scheduled_at)} (since {utc(job.scheduled_at)})"
            return f"It has been due for {since}: no worker that serves queue {job.queue!r} is running, or none has a free slot."


def _running(job: Job, now: datetime) -> str:
    if job.lease_until is None or job.lease_until <= now:
        ran_out = "" if job.lease_until is None else f" {_when(job.lease_until, now)}"
        return f"The lease of {job.lease_owner} ran out{ran_out}; the next sweep of any worker takes the job back."
    asked = "" if job.cancel_requested_at is None else f" It was asked to stop {_when(job.cancel_requested_at, now)}."
    return f"It is running: {job.lease_owner} holds the lease until {utc(job.lease_until)} ({relative(job.lease_until, now)}).{asked}"


def _when(moment: datetime, now: datetime) -> str:
    return f"{relative(moment, now)} ({utc(moment)})"
