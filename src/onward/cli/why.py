"""Why a job is not running, in one sentence."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

from msgspec import Struct

from onward.breaker import BreakerState
from onward.cli.output import relative, rough, utc
from onward.cli.wait_words import breaker_status, limit_use
from onward.driver import Store
from onward.inspection import MOST_COUNTED, KnownLimit
from onward.jobs import Job
from onward.outcome import EXPIRED
from onward.presence import KnownWorker, living, who_is_lacking
from onward.status import Status


class Others(Struct, frozen=True, kw_only=True):
    """What a store says of those that a due job waits for. None where it was not asked, or knows nothing."""

    breaker: BreakerState | None = None
    limit: KnownLimit | None = None
    """Of the job's concurrency key."""
    queue_limit: KnownLimit | None = None
    ahead: Job | None = None
    """Who stands before the job in the line of its serial key; a dead letter where nobody else does."""
    workers: tuple[KnownWorker, ...] | None = None
    """Those that are alive."""
    before: int = 0
    """Due jobs of its queue that are taken before it."""


NOBODY = Others()


def look_at_others(store: Store, job: Job, now: datetime, *, goes_on_behind_dead_letter: bool = False) -> Others:
    """Ask the store whom the job waits for: nothing of a job that is not due. ``goes_on_behind_dead_letter`` is what its code says."""
    if job.status not in (Status.QUEUED, Status.RETRYING) or job.scheduled_at > now:
        return NOBODY
    match job.blocked_by:
        case "breaker" if job.breaker is not None:
            return Others(breaker=next((one.state for one in store.breakers([job.breaker])), None))
        case "limit" if job.concurrency_key is not None:
            return Others(limit=next(iter(store.limits(keys=[job.concurrency_key])), None))
        case "serial":
            ahead = store.ahead_of(job.id)
            is_passed = ahead is not None and ahead.status is Status.DEAD_LETTER and goes_on_behind_dead_letter
            return Others(ahead=None if is_passed else ahead)
        case None:
            queue_limit = next(iter(store.limits([job.queue])), None)
            return Others(queue_limit=queue_limit, workers=tuple(living(store.workers(), store.now())), before=store.due_before(job))
        case "type":
            return Others(workers=tuple(living(store.workers(), store.now())))
        case _:
            return NOBODY


def explain(
    job: Job,
    now: datetime,
    onward: str = "onward",
    paused_at: datetime | None = None,
    *,
    key_held_by: str | None = None,
    others: Others = NOBODY,
) -> str:
    """Say why the job is not running now, and what would change that.

    ``now`` is by the store's clock, ``onward`` the command as it has to be typed to reach this store, ``paused_at`` since when the job's
    queue is paused, ``key_held_by`` the live job that has the job's key, ``others`` whom it waits for.
    """
    match job.status:
        case Status.QUEUED | Status.RETRYING:
            return _waiting(job, now, onward, paused_at, others)
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


def _waiting(job: Job, now: datetime, onward: str, paused_at: datetime | None, others: Others) -> str:
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
            return _unknown(job, others)
        case "breaker":
            return _behind_breaker(job, now, onward, others.breaker)
        case "limit":
            return _over_limit(job, now, onward, others.limit)
        case "serial":
            return _in_line(job, onward, others.ahead)
    if others.queue_limit is not None and (use := limit_use(others.queue_limit, now)) is not None:
        more = f"'{onward} limits set --queue {job.queue} ...' sets another"
        return f"It is due, but queue {job.queue!r} is at its limit: {use}. It goes on by itself; {more}."
    return f"It has been due for {rough(now - job.scheduled_at)} (since {utc(job.scheduled_at)}): {_not_taken(job, onward, others)}"


def _not_taken(job: Job, onward: str, others: Others) -> str:
    """Why nobody has taken a job that nothing keeps from being run."""
    if others.workers is None:
        return f"no worker that serves queue {job.queue!r} is running, or none has a free slot."
    match who_is_lacking(others.workers, job.queue, job.type):
        case "worker":
            return f"no worker is running. '{onward} worker' starts one."
        case "queue":
            return f"no worker that is running serves queue {job.queue!r}. '{onward} workers' tells what each of them serves."
        case "type":
            return f"no running worker that serves queue {job.queue!r} knows the type {job.type!r}: start one whose application does."
    if others.before:
        more = "+" if others.before >= MOST_COUNTED else ""
        jobs = "1 other" if others.before == 1 else f"{others.before:,}{more} others"
        return f"it is behind {jobs} in queue {job.queue!r}, and is taken when they have been."
    return f"it is the next of queue {job.queue!r}, and a worker takes it when a slot is free."


def _unknown(job: Job, others: Others) -> str:
    if others.workers and who_is_lacking(others.workers, job.queue, job.type) is None:
        return f"It is due, and a worker that knows its type {job.type!r} is running by now: its next sweep lets it go on."
    return f"It is due, but no worker that served queue {job.queue!r} knew the type {job.type!r}: start one whose application does."


def _behind_breaker(job: Job, now: datetime, onward: str, state: BreakerState | None) -> str:
    if state is None:
        return f"It is due, and the breaker {job.breaker!r}, behind which it waits, is closed: the next sweep of any worker lets it go on."
    if state.status == "closed":
        return f"It is due, and the breaker {job.breaker!r} is closed again: those that waited behind it go on at {state.pace}."
    reset = f"'{onward} breakers reset {quote(state.key)}' lets it go on"
    return f"It is due, but the breaker {job.breaker!r} is {breaker_status(state, now)}: {reset}."


def _over_limit(job: Job, now: datetime, onward: str, known: KnownLimit | None) -> str:
    use = None if known is None else limit_use(known, now)
    if use is None:
        return f"It is due, and there is room again under the limit of {job.concurrency_key!r}: the next sweep of any worker lets it go on."
    more = f"'{onward} limits set --key {quote(job.concurrency_key or '')} ...' sets another"
    return f"It is due, but the limit of its concurrency key {job.concurrency_key!r} is reached: {use}. It goes on by itself; {more}."


def _in_line(job: Job, onward: str, ahead: Job | None) -> str:
    if ahead is None:
        return (
            f"It is due, and nobody stands before it any more with the serial key {job.serial_key!r}: "
            "the next sweep of any worker lets it go on."
        )
    if ahead.status is Status.DEAD_LETTER:
        retry = f"'{onward} jobs retry {ahead.id}' or '{onward} jobs delete {ahead.id}' lets it go on"
        return f"It is due, but job {ahead.id} with the same serial key {job.serial_key!r} is a dead letter: {retry}."
    stands = f"job {ahead.id} stands before it with the serial key {job.serial_key!r} and is {ahead.status.value.replace('_', ' ')}"
    return f"It is due, but {stands}: '{onward} jobs show {ahead.id}' tells of that one."


def _running(job: Job, now: datetime) -> str:
    if job.lease_until is None or job.lease_until <= now:
        ran_out = "" if job.lease_until is None else f" {_when(job.lease_until, now)}"
        return f"The lease of {job.lease_owner} ran out{ran_out}; the next sweep of any worker takes the job back."
    asked = "" if job.cancel_requested_at is None else f" It was asked to stop {_when(job.cancel_requested_at, now)}."
    return f"It is running: {job.lease_owner} holds the lease until {utc(job.lease_until)} ({relative(job.lease_until, now)}).{asked}"


def _when(moment: datetime, now: datetime) -> str:
    return f"{relative(moment, now)} ({utc(moment)})"
