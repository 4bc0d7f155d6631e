"""How claims end: settled by their worker, lost with it, or given back for it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from msgspec.structs import replace

from onward.driver import Claim, Settlement
from onward.drivers.memory.accept import accept
from onward.drivers.memory.tables import Tables
from onward.errors import DuplicateJob
from onward.jobs import Attempt, Job, NewJob
from onward.outcome import EXPIRED, Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed, attempts_after_loss, lose
from onward.status import Status

LOST = "the lease ran out: its worker died, or could not reach the store"
STOPPED = "cancelled while it ran"
UNSTORABLE = "result could not be stored: it is not valid Unicode"


def holds(tables: Tables, claim: Claim) -> Job | None:
    """Give the row when the claim is the newest and still runs."""
    job = tables.jobs.get(claim.id)
    if job is None or job.status is not Status.IN_PROGRESS:
        return None
    return job if (job.fence, job.lease_owner) == (claim.fence, claim.job.lease_owner) else None


def settle(tables: Tables, settlement: Settlement, now: datetime) -> bool:
    """Store how a run ended, once. False when the claim is not the newest any more; nothing is stored then."""
    job = holds(tables, settlement.claim)
    if job is None:
        return _was_settled_so(tables, settlement)
    outcome = _wanted(job, settlement.outcome)
    ended = _after(job, outcome, now)
    if settlement.progress is not None:
        ended = replace(ended, progress=storable(settlement.progress))
    _leave(tables, ended)
    if isinstance(outcome, Completed):
        # After the key is free: a job may enqueue its own successor under it.
        for child in settlement.children:
            _add_child(tables, child, now)
    if settlement.keeps_history or not isinstance(outcome, Completed):
        tables.add_attempt(_attempt(job, outcome.name, ended.error if _says_why(outcome) else None, now, settlement))
    return True


def _was_settled_so(tables: Tables, settlement: Settlement) -> bool:
    """Say whether an earlier try of the same turn stored this settlement, and only its answer was lost."""
    claim, outcome = settlement.claim, settlement.outcome
    job = tables.jobs.get(claim.id)
    if job is None:
        return False
    if isinstance(outcome, Completed):
        return job.status is Status.COMPLETED and job.fence == claim.fence
    return any(kept.fence == claim.fence and kept.outcome == outcome.name for kept in tables.history.get(claim.id, ()))


def _wanted(job: Job, outcome: Outcome) -> Outcome:
    # The request may have arrived after the handler's last look, so only the store can honour it for certain.
    if job.cancel_requested_at is not None and isinstance(outcome, Retried | Snoozed | Released):
        return Cancelled(STOPPED)
    return outcome


def _after(job: Job, outcome: Outcome, now: datetime) -> Job:
    free = replace(job, status=outcome.status, lease_owner=None, lease_until=None, updated_at=now)
    match outcome:
        case Completed(result, error):
            if result is not None and not _is_storable(result):
                result, error = None, UNSTORABLE
            return replace(free, result=result, error=storable(error), finished_at=now)
        case Retried(delay, error):
            return replace(free, error=storable(error), scheduled_at=now + delay)
        case Snoozed(delay):
            return replace(free, attempts=job.attempts - 1, snoozes=job.snoozes + 1, scheduled_at=now + delay)
        case Released():
            return replace(free, attempts=job.attempts - 1, releases=job.releases + 1)
        case Cancelled(reason):
            return replace(free, error=storable(reason), finished_at=now)
        case DeadLettered(error):
            return replace(free, error=storable(error), finished_at=now)


def _add_child(tables: Tables, child: NewJob, now: datetime) -> None:
    # A completion cannot be refused for its child: whoever holds the key, or the id, stands for it.
    with suppress(DuplicateJob):
        accept(tables, [replace(child, on_duplicate="return")], now)


def take_back(tables: Tables, job: Job, now: datetime) -> Job:
    """End a claim whose lease ran out or whose process died. Gives the job as it is then."""
    was_cancelled = job.cancel_requested_at is not None
    status = Status.CANCELLED if was_cancelled else lose(job)
    lost = replace(
        job,
        status=status,
        attempts=attempts_after_loss(job),
        lost_leases=job.lost_leases + 1,
        lease_owner=None,
        lease_until=None,
        error=STOPPED if was_cancelled else LOST,
        updated_at=now,
        finished_at=now if status.is_final else None,
    )
    tables.add_attempt(_attempt(job, "lost", LOST, now))
    return _leave(tables, lost)


def give_back(tables: Tables, job: Job, now: datetime) -> Job:
    """End a claim whose handler never started: the try does not count. Gives the job as it is then."""
    outcome = _wanted(job, Released())
    ended = _after(job, outcome, now)
    tables.add_attempt(_attempt(job, outcome.name, None, now))
    return _leave(tables, ended)


def expire(tables: Tables, job: Job, now: datetime) -> str:
    """Cancel a waiting job whose time is over. Gives its id."""
    return cancel_waiting(tables, job, EXPIRED, now).id


def set_aside(tables: Tables, job: Job, reason: str, now: datetime) -> None:
    """Dead-letter a row that is not a job, so that it stops only itself."""
    error = f"the row cannot be read: {reason}"
    _leave(tables, replace(job, status=Status.DEAD_LETTER, blocked_by=None, error=error, updated_at=now, finished_at=now))


def cancel_waiting(tables: Tables, job: Job, reason: str, now: datetime) -> Job:
    """End a job that is not running."""
    return _leave(tables, replace(job, status=Status.CANCELLED, blocked_by=None, error=reason, updated_at=now, finished_at=now))


def _leave(tables: Tables, job: Job) -> Job:
    if job.status.is_final:
        tables.free_key(job)
    return tables.put_job(job)


def _attempt(job: Job, outcome: str, error: str | None, now: datetime, settlement: Settlement | None = None) -> Attempt:
    return Attempt(
        job_id=job.id,
        fence=job.fence,
        attempt=job.attempts,
        lease_owner=job.lease_owner,
        outcome=outcome,
        error=error,
        processed=settlement.processed if settlement else 0,
        failed=settlement.failed if settlement else 0,
        started_at=job.started_at,
        finished_at=now,
    )


def _says_why(outcome: Outcome) -> bool:
    return not isinstance(outcome, Snoozed | Released)


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str | None) -> str | None:
    """Give the text with what has no UTF-8 form replaced."""
    return text if text is None or _is_storable(text) else text.encode(errors="replace").decode()


def is_lost(job: Job, now: datetime, longest_lease: timedelta) -> bool:
    """Say whether a claim's lease ran out, or lies so far ahead that the clock must have gone back since."""
    if job.status is not Status.IN_PROGRESS:
        return False
    return job.lease_until is None or not now < job.lease_until <= now + longest_lease
