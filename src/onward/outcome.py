"""How a run ended, as one value; and the one pure function that chooses it.

Worker, test helpers and every later way to run a job go through ``decide``. Outcomes carry durations; the store makes
them instants by its own clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import ClassVar, TypeAlias

from msgspec import Struct

from onward.durations import parse_duration, parse_retry_after
from onward.error_text import bound_error, describe_error
from onward.errors import InvalidPayload, InvalidTime, TransientJobError
from onward.jobs import Job
from onward.payload import encode_result
from onward.retry import RetryPolicy
from onward.status import Status, Verb

MOST_RELEASES = 20
MOST_SNOOZES = 1000
EXPIRED = "expired"


# -- what a handler may return to say how its run ended --------------------------------------------------------------


class Snooze:
    """Returned by a handler: run the job again after ``delay``; this try does not count."""

    def __init__(self, delay: timedelta | float | str) -> None:
        self.delay = parse_duration(delay)


class Cancel:
    """Returned by a handler: the work is not needed any more. The job ends ``cancelled`` with ``reason``."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        self.reason = reason


class Release:
    """Returned by a handler that was told to stop: give the job back now; this try does not count."""


class StoppedByWorker(BaseException):
    """How a run ends that outlived the worker's grace: the job is given back. Never raised in a handler."""


# -- how the run ended -----------------------------------------------------------------------------------------------


class Completed(Struct, frozen=True):
    """The handler returned. ``result`` is JSON text; ``error`` says so when the result could not be stored."""

    result: str | None = None
    error: str | None = None
    verb: ClassVar[Verb] = Verb.COMPLETE
    status: ClassVar[Status] = Status.COMPLETED
    name: ClassVar[str] = "completed"


class Retried(Struct, frozen=True):
    """The try failed and another one is left, ``delay`` from now."""

    delay: timedelta
    error: str
    verb: ClassVar[Verb] = Verb.RETRY
    status: ClassVar[Status] = Status.RETRYING
    name: ClassVar[str] = "retried"


class Snoozed(Struct, frozen=True):
    """The handler asked to run ``delay`` later; the try is given back."""

    delay: timedelta
    verb: ClassVar[Verb] = Verb.SNOOZE
    status: ClassVar[Status] = Status.QUEUED
    name: ClassVar[str] = "snoozed"


class Released(Struct, frozen=True):
    """A stopping worker gives the job back; so is the try."""

    verb: ClassVar[Verb] = Verb.RELEASE
    status: ClassVar[Status] = Status.QUEUED
    name: ClassVar[str] = "released"


class Cancelled(Struct, frozen=True):
    """Nobody wants the job any more."""

    reason: str
    verb: ClassVar[Verb] = Verb.CANCEL
    status: ClassVar[Status] = Status.CANCELLED
    name: ClassVar[str] = "cancelled"


class DeadLettered(Struct, frozen=True):
    """The job will not run again by itself."""

    error: str
    verb: ClassVar[Verb] = Verb.DEAD_LETTER
    status: ClassVar[Status] = Status.DEAD_LETTER
    name: ClassVar[str] = "dead_lettered"


Outcome: TypeAlias = Completed | Retried | Snoozed | Released | Cancelled | DeadLettered


def decide(job: Job, ending: object, policy: RetryPolicy, now: datetime, chance: Random) -> Outcome:
    """Choose the outcome of a run from what the handler returned or raised.

    ``job`` is as claimed, so ``job.attempts`` counts this try. ``now`` only serves to read HTTP dates in ``retry_after``.
    """
    match ending:
        case Snooze():
            if job.snoozes >= MOST_SNOOZES:
                return DeadLettered(f"snoozed {MOST_SNOOZES:,} times: it is not making progress")
            return Snoozed(ending.delay)
        case Cancel():
            return Cancelled(bound_error(ending.reason))
        case Release() | StoppedByWorker():
            return _release(job)
        case BaseException():
            return _failure(job, ending, policy, now, chance)
        case _:
            return _completion(ending)


def _release(job: Job) -> Outcome:
    if job.cancel_requested_at is not None:
        return Cancelled("cancelled while it ran")
    if job.releases + 1 < MOST_RELEASES:
        return Released()
    error = f"given back {job.releases + 1} times by stopping workers: it takes longer than their grace"
    return Retried(timedelta(0), error) if job.attempts < job.max_attempts else DeadLettered(error)


def _failure(job: Job, error: BaseException, policy: RetryPolicy, now: datetime, chance: Random) -> Outcome:
    if job.cancel_requested_at is not None:
        return Cancelled("cancelled while it ran")
    text = describe_error(error)
    if not policy.allows_another_try(error, job.attempts, job.max_attempts):
        return DeadLettered(text)
    delay = policy.delay(job.attempts, chance)
    if isinstance(error, TransientJobError) and error.retry_after is not None:
        try:
            delay = parse_retry_after(error.retry_after, now)
        except InvalidTime as unreadable:
            text = bound_error(f"{text}\n(retry_after ignored: {unreadable})")
    return Retried(delay, text)


def _completion(returned: object) -> Outcome:
    try:
        return Completed(encode_result(returned))
    except InvalidPayload as error:
        # The work is done; running it again because its result has no JSON form would do it twice.
        return Completed(error=f"result could not be stored: {error}")


def lose(job: Job) -> Status:
    """Say where a job goes whose claim was lost (its lease ran out, or its process died).

    ``job`` is as claimed. Only a claim that ran isolated can be blamed for the death of its process.
    """
    if job.isolated and job.attempts >= job.max_attempts:
        return Status.DEAD_LETTER
    return Status.QUEUED


def attempts_after_loss(job: Job) -> int:
    """Say how many attempts count after a loss: the last one is given back to a job that may be an innocent neighbour."""
    if job.attempts >= job.max_attempts and not job.isolated:
        return job.attempts - 1
    return job.attempts
