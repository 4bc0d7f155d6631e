"""How claims end: settled by their worker, lost with it, or given back for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec import ValidationError, convert
from msgspec.structs import asdict, replace

from onward.drivers.memory.enqueue import enqueue
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.waits import count_run, let_go
from onward.errors import DuplicateJob
from onward.jobs import Attempt, Job, NewJob, why_unusable
from onward.outcome import EXPIRED, Completed, Ending, Released, as_stored, end_lost, end_settled, is_stored, storable
from onward.status import Status
from onward.turn import Claim, Settlement


def holds(tables: Tables, claim: Claim) -> Job | None:
    """Give the row when the claim is the newest and still runs."""
    job = tables.jobs.get(claim.id)
    return job if job is not None and job.status is Status.IN_PROGRESS and job.fence == claim.fence else None


def settle_all(tables: Tables, settlements: Sequence[Settlement], now: datetime) -> tuple[list[Settlement], list[Settlement]]:
    """Store how these runs ended; then count them at their breakers, and let those go on that wait for what they held.

    Gives those that hold and those that are lost. What was stored before counts at its breaker only as a success: a failure was counted
    then.
    """
    settled: list[Settlement] = []
    lost: list[Settlement] = []
    repeated: list[Settlement] = []
    fresh: list[Settlement] = []
    for one in settlements:
        is_fresh = holds(tables, one.claim) is not None
        stored = settle(tables, one, now)
        if stored is None:
            lost.append(one)
        else:
            settled.append(stored)
            (fresh if is_fresh else repeated).append(one)
    for one in fresh + [one for one in repeated if one.run_ending == "success"]:
        count_run(tables, one, now)
    let_go(tables, [row for one in settled if (row := tables.jobs.get(one.claim.id)) is not None], now)
    return settled, lost


def settle(tables: Tables, settlement: Settlement, now: datetime) -> Settlement | None:
    """Store how a run ended, once, and give it with the outcome that was stored. None when its claim is not the newest."""
    claim, outcome = settlement.claim, settlement.outcome
    job = holds(tables, claim)
    if job is None:
        row = tables.jobs.get(claim.id)
        return None if row is None or not is_stored(row, claim.job, outcome) else _told(settlement, row)
    if settlement.progress is not None:
        job = replace(job, progress=storable(settlement.progress))
    ending = end_settled(claim.job, outcome, is_cancel_requested=job.cancel_requested_at is not None)
    _end(tables, job, ending, now)
    if isinstance(outcome, Completed):
        # After the key is free: a job may enqueue its own successor under it.
        for child in settlement.children:
            _add_child(tables, child, now)
    if settlement.keeps_history or not isinstance(outcome, Completed):
        tables.add_attempt(_attempt(claim.job, ending, now, settlement.processed, settlement.failed))
    return _told(settlement, job)


def _told(settlement: Settlement, job: Job) -> Settlement:
    return replace(settlement, outcome=as_stored(settlement.outcome, is_cancel_requested=job.cancel_requested_at is not None))


def _add_child(tables: Tables, child: NewJob, now: datetime) -> None:
    # A completion cannot be refused for its child: whoever holds the key, or the id, stands for it.
    with suppress(DuplicateJob):
        enqueue(tables, [replace(child, on_duplicate="return", refuses_open_breaker=False)], now)


def take_back(tables: Tables, job: Job, why: str, now: datetime) -> Job:
    """End a claim whose lease ran out or whose process died. Gives the job as it is then."""
    ending = end_lost(job, why)
    tables.add_attempt(_attempt(job, ending, now))
    return _end(tables, job, ending, now)


def give_back(tables: Tables, job: Job, now: datetime) -> Job:
    """End a claim whose handler never started: the try does not count. Gives the job as it is then."""
    ending = end_settled(job, Released(), is_cancel_requested=job.cancel_requested_at is not None)
    tables.add_attempt(_attempt(job, ending, now))
    return _end(tables, job, ending, now)


def _end(tables: Tables, job: Job, ending: Ending, now: datetime) -> Job:
    ended = replace(
        job,
        status=ending.status,
        attempts=ending.attempts,
        lost_leases=ending.lost_leases,
        releases=ending.releases,
        snoozes=ending.snoozes,
        isolated=ending.isolated,
        error=ending.error,
        result=ending.result,
        scheduled_at=job.scheduled_at if ending.delay is None else now + ending.delay,
        lease_owner=None,
        lease_until=None,
        updated_at=now,
        finished_at=now if ending.status.is_final else None,
    )
    return _leave(tables, ended)


def _attempt(job: Job, ending: Ending, now: datetime, processed: int = 0, failed: int = 0) -> Attempt:
    return Attempt(
        job_id=job.id,
        fence=job.fence,
        attempt=job.attempts,
        lease_owner=job.lease_owner,
        outcome=ending.name,
        error=ending.reason,
        processed=processed,
        failed=failed,
        started_at=job.started_at,
        finished_at=now,
    )


def expire(tables: Tables, job: Job, now: datetime) -> Job:
    """Cancel a waiting job whose time is over. Gives the job as it is then."""
    return cancel_waiting(tables, job, EXPIRED, now)


def why_not_workable(job: Job) -> str | None:
    """Say what is wrong with a row that somebody wrote by hand, in the words of every other store."""
    try:
        convert(asdict(job), Job)
    except ValidationError as error:
        return str(error)
    return why_unusable(job)


def set_aside(tables: Tables, job: Job, reason: str, now: datetime) -> None:
    """Dead-letter a row that is not a job, so that it stops only itself."""
    error = f"the row cannot be read: {reason}"
    ended = replace(job, status=Status.DEAD_LETTER, lease_owner=None, lease_until=None, blocked_by=None, error=error)
    _leave(tables, replace(ended, updated_at=now, finished_at=now))


def cancel_waiting(tables: Tables, job: Job, reason: str, now: datetime) -> Job:
    """End a job that is not running. Gives the job as it is then."""
    return _leave(tables, replace(job, status=Status.CANCELLED, blocked_by=None, error=reason, updated_at=now, finished_at=now))


def _leave(tables: Tables, job: Job) -> Job:
    if job.status.is_final:
        tables.free_key(job)
    return tables.put_job(job)


def is_lost(job: Job, now: datetime, longest_lease: timedelta) -> bool:
    """Say whether a claim's lease ran out, or lies so far ahead that the clock must have gone back since."""
    if job.status is not Status.IN_PROGRESS:
        return False
    return job.lease_until is None or not now < job.lease_until <= now + longest_lease
