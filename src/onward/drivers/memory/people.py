"""What a person does to a job: cancel, retry, run now, delete."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from onward.drivers.memory.settle import cancel_waiting
from onward.drivers.memory.tables import KeyHolder, Tables
from onward.drivers.memory.waits import let_go
from onward.errors import IllegalTransition, JobNotFound
from onward.jobs import Job
from onward.outcome import storable
from onward.status import Status, Verb, is_legal, why_not, why_not_deleted
from onward.unique import key_lasts, refuse_retry


def get(tables: Tables, job_id: str, owner: str | None) -> Job:
    """Read a job. A foreign one is as missing as one that never was."""
    job = tables.jobs.get(job_id)
    if job is None or (owner is not None and job.owner != owner):
        raise JobNotFound(storable(job_id))
    return job


def cancel(tables: Tables, job_id: str, owner: str | None, now: datetime, *, frees: bool = True) -> Job:
    """Cancel a waiting job, or ask a running one to stop. ``frees`` lets those go on that wait for what it held."""
    job = _allowed(tables, job_id, owner, Verb.CANCEL)
    if job.status is not Status.IN_PROGRESS:
        ended = cancel_waiting(tables, job, "cancelled", now)
        if frees:
            let_go(tables, [ended], now)
        return ended
    if job.cancel_requested_at is not None:
        return job
    return tables.put_job(replace(job, cancel_requested_at=now, updated_at=now))


def retry(tables: Tables, job_id: str, owner: str | None, now: datetime) -> Job:
    """Queue a dead-lettered or cancelled job again. One that was too late may run at any time from now on."""
    job = _allowed(tables, job_id, owner, Verb.RETRY_BY_HAND)
    _take_key_again(tables, job, now)
    is_too_late = job.expires_at is not None and job.expires_at <= now
    return tables.put_job(
        replace(
            job,
            status=Status.QUEUED,
            scheduled_at=now,
            expires_at=None if is_too_late else job.expires_at,
            attempts=0,
            lost_leases=0,
            releases=0,
            snoozes=0,
            blocked_by=None,
            cancel_requested_at=None,
            error=None,
            result=None,
            progress=None,
            updated_at=now,
            finished_at=None,
        )
    )


def run_now(tables: Tables, job_id: str, owner: str | None, now: datetime) -> Job:
    """Make a waiting job due."""
    job = _allowed(tables, job_id, owner, Verb.RUN_NOW)
    return tables.put_job(replace(job, status=Status.QUEUED, scheduled_at=now, blocked_by=None, updated_at=now))


def delete(tables: Tables, job_id: str, owner: str | None, now: datetime, *, frees: bool = True) -> Job:
    """Remove a job that is not running, and give it as it was. ``frees`` as for ``cancel``."""
    job = get(tables, job_id, owner)
    if job.status is Status.IN_PROGRESS:
        raise IllegalTransition(why_not_deleted(job_id))
    tables.remove_job(job)
    if frees:
        let_go(tables, [job], now)
    return job


def _take_key_again(tables: Tables, job: Job, now: datetime) -> None:
    if job.idempotency_key is None:
        return
    name = (job.owner, job.type, job.idempotency_key)
    holder = tables.keys.get(name)
    if holder is not None and holder.holds_at(now):
        if holder.job_id != job.id:
            raise refuse_retry(job, holder.job_id)
        return
    scope = tables.scopes[job.id]
    window = key_lasts(scope)
    tables.put_key(name, KeyHolder(job.id, job.payload_hash, scope, None if window is None else now + window))


def _allowed(tables: Tables, job_id: str, owner: str | None, verb: Verb) -> Job:
    job = get(tables, job_id, owner)
    if not is_legal(job.status, verb):
        raise IllegalTransition(why_not(job_id, job.status, verb))
    return job
