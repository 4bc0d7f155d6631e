"""How a run ended, as one value; and the one pure function that chooses it.

Worker, test helpers and every later way to run a job go through ``decide``. Outcomes carry durations; the store makes
them instants by its own clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from onward.durations import parse_duration
from onward.error_text import bound_error, describe_error, name_of
from onward.errors import InvalidPayload
from onward.jobs import Job
from onward.payload import encode_result
from onward.retry import RetryPolicy, wait_asked_for
from onward.secret_fields import Hide, as_it_is
from onward.status import Status, Verb

MOST_RELEASES = 20
MOST_SNOOZES = 1000
MOST_LOSSES = 20
EXPIRED = "expired"
STOPPED = "cancelled while it ran"
LEASE_RAN_OUT = "lease lost: the worker {owner} stopped renewing it"
PROCESS_DIED = "worker lost: the process {owner} died while it ran"
UNSTORABLE = "result could not be stored: it contains a lone surrogate or a NUL character"


# -- what a handler may return to say how its run ended --------------------------------------------------------------


class Snooze:
    """Returned by a handler: run the job again after ``delay``; this try does not count, but a job may snooze 1,000 times at most.

    ``delay`` is from 0 to a hundred years. Raises ``InvalidTime`` for anything else.
    """

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


class Completed(Struct, frozen=True, gc=False):
    """The handler returned. ``result`` is JSON text; ``error`` says so when the result could not be stored."""

    result: str | None = None
    error: str | None = None
    verb: ClassVar[Verb] = Verb.COMPLETE
    status: ClassVar[Status] = Status.COMPLETED
    name: ClassVar[str] = "completed"


class Retried(Struct, frozen=True, gc=False):
    """The try failed and another one is left, ``delay`` from now; ``isolated`` asks that it runs without neighbours."""

    delay: timedelta
    error: str
    isolated: bool = False
    verb: ClassVar[Verb] = Verb.RETRY
    status: ClassVar[Status] = Status.RETRYING
    name: ClassVar[str] = "retried"


class Snoozed(Struct, frozen=True, gc=False):
    """The handler asked to run ``delay`` later; the try is given back."""

    delay: timedelta
    verb: ClassVar[Verb] = Verb.SNOOZE
    status: ClassVar[Status] = Status.QUEUED
    name: ClassVar[str] = "snoozed"


class Released(Struct, frozen=True, gc=False):
    """A stopping worker gives the job back; so is the try."""

    verb: ClassVar[Verb] = Verb.RELEASE
    status: ClassVar[Status] = Status.QUEUED
    name: ClassVar[str] = "released"


class Cancelled(Struct, frozen=True, gc=False):
    """Nobody wants the job any more."""

    reason: str
    verb: ClassVar[Verb] = Verb.CANCEL
    status: ClassVar[Status] = Status.CANCELLED
    name: ClassVar[str] = "cancelled"


class DeadLettered(Struct, frozen=True, gc=False):
    """The job will not run again by itself."""

    error: str
    verb: ClassVar[Verb] = Verb.DEAD_LETTER
    status: ClassVar[Status] = Status.DEAD_LETTER
    name: ClassVar[str] = "dead_lettered"


Outcome: TypeAlias = Completed | Retried | Snoozed | Released | Cancelled | DeadLettered


def decide(job: Job, ending: object, policy: RetryPolicy, now: datetime, chance: Random, hide: Hide = as_it_is) -> Outcome:
    """Choose the outcome of a run from what the handler returned or raised.

    ``job`` is as claimed, so ``job.attempts`` counts this try. ``now`` only serves to read HTTP dates in ``retry_after``. ``hide`` takes
    the secrets of the payload out of every text.
    """
    match ending:
        case Snooze():
            if job.snoozes >= MOST_SNOOZES:
                return DeadLettered(f"snoozed {MOST_SNOOZES:,} times: it is not making progress")
            return Snoozed(ending.delay)
        case Cancel():
            return Cancelled(bound_error(ending.reason, hide))
        case Release() | StoppedByWorker():
            return _release(job)
        case BaseException():
            return _failure(job, ending, policy, now, chance, hide)
        case _:
            return _completion(ending, hide)


def _release(job: Job) -> Outcome:
    if job.cancel_requested_at is not None:
        return Cancelled(STOPPED)
    if job.releases + 1 < MOST_RELEASES:
        return Released()
    error = f"given back {job.releases + 1} times by stopping workers: it takes longer than their grace"
    return Retried(timedelta(0), error) if job.attempts < job.max_attempts else DeadLettered(error)


def _failure(job: Job, error: BaseException, policy: RetryPolicy, now: datetime, chance: Random, hide: Hide) -> Outcome:
    if job.cancel_requested_at is not None:
        return Cancelled(STOPPED)
    text = describe_error(error, hide)
    weighed = policy.weigh(error)
    if weighed.failed_test is not None:
        text = bound_error(f"{text}\n(a test of the retry policy could not say what this means: {name_of(weighed.failed_test)})")
    if not policy.grants(weighed.judgement, job.attempts, job.max_attempts):
        return DeadLettered(text)
    asked, unreadable = wait_asked_for(error, now)
    if unreadable is not None:
        text = bound_error(f"{text}\n(retry_after ignored: {unreadable})", hide)
    return Retried(policy.delay(job.attempts, chance) if asked is None else asked, text)


def _completion(returned: object, hide: Hide) -> Outcome:
    try:
        return Completed(encode_result(returned))
    except InvalidPayload as error:
        # The work is done; running it again because its result has no JSON form would do it twice.
        return Completed(error=hide(f"result could not be stored: {error}"))


# -- what is written of it -------------------------------------------------------------------------------------------


class Ending(Struct, frozen=True, kw_only=True):
    """What the end of a claim writes into the job's row and its history, the same in every store."""

    status: Status
    attempts: int
    lost_leases: int
    releases: int
    snoozes: int
    isolated: bool
    error: str | None
    result: str | None = None
    delay: timedelta | None = None
    """How long from now the job is due again; None leaves ``scheduled_at`` as it is."""
    name: str
    """``outcome`` of the row in the history."""
    reason: str | None
    """``error`` of the row in the history: what this attempt has to say, where the job's own may be older."""


def as_stored(outcome: Outcome, *, is_cancel_requested: bool) -> Outcome:
    """Give the outcome that a store writes for this one.

    A job that a person asked to cancel ends cancelled unless it completed: the request may have come after the handler's last look, so
    that only the store can honour it. A result without a form in a database is left out.
    """
    if is_cancel_requested and yields_to_cancel(outcome):
        return Cancelled(STOPPED)
    if isinstance(outcome, Completed) and outcome.result is not None and not has_form(outcome.result):
        return Completed(error=UNSTORABLE)
    return outcome


def yields_to_cancel(outcome: Outcome) -> bool:
    """Say whether a request to cancel changes this outcome: it does unless the job completed, or is cancelled with a reason of its own."""
    return not isinstance(outcome, Completed | Cancelled)


def end_settled(job: Job, outcome: Outcome, *, is_cancel_requested: bool) -> Ending:
    """Say what a settlement writes. ``job`` is as claimed: while the fence is the same, nothing else changes what is counted here.

    Where the request to cancel decides (``as_stored``), the try counts as it stands.
    """
    outcome = as_stored(outcome, is_cancel_requested=is_cancel_requested)
    match outcome:
        case Completed(result, error):
            return _ending(job, outcome, reason=error, result=result)
        case Retried(delay, error, isolated):
            return _ending(job, outcome, reason=error, isolated=job.isolated or isolated, delay=delay)
        case Snoozed(delay):
            return _ending(job, outcome, error=job.error, attempts=max(job.attempts - 1, 0), snoozes=job.snoozes + 1, delay=delay)
        case Released():
            return _ending(job, outcome, error=job.error, attempts=max(job.attempts - 1, 0), releases=job.releases + 1)
        case Cancelled(reason) | DeadLettered(reason):
            return _ending(job, outcome, reason=reason)


def end_lost(job: Job, why: str) -> Ending:
    """Say what is written for a claim whose lease ran out or whose process died. ``why`` is ``LEASE_RAN_OUT`` or ``PROCESS_DIED``."""
    reason = why.format(owner=job.lease_owner)
    status, error = (lose(job), reason) if job.cancel_requested_at is None else (Status.CANCELLED, STOPPED)
    return Ending(
        status=status,
        attempts=attempts_after_loss(job),
        lost_leases=job.lost_leases + 1,
        releases=job.releases,
        snoozes=job.snoozes,
        isolated=job.isolated,
        error=error,
        name="lost",
        reason=reason,
    )


def is_stored(row: Job, job: Job, outcome: Outcome) -> bool:
    """Say whether ``row`` shows what this settlement writes: then an earlier try of the same turn was stored, and its answer was lost.

    ``job`` is as claimed. A sweep leaves a job queued under the same fence, as a release does; what they count tells them apart.
    """
    if isinstance(outcome, Completed):
        # Only the run itself completes its job, also in a transaction of its handler; what it says afterwards changes nothing.
        return (job.fence, outcome.status) == (row.fence, row.status)
    ending = end_settled(job, outcome, is_cancel_requested=row.cancel_requested_at is not None)
    written = (ending.status, ending.attempts, ending.lost_leases, ending.releases, ending.snoozes, ending.error)
    return (job.fence, *written) == (row.fence, row.status, row.attempts, row.lost_leases, row.releases, row.snoozes, row.error)


def storable(text: str) -> str:
    """Give the text with what some database cannot store written out: lone surrogates, and NUL, at which text functions may end."""
    if has_form(text):
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _ending(job: Job, outcome: Outcome, *, reason: str | None = None, **changed: Any) -> Ending:
    reason = None if reason is None else storable(reason)
    counts = {"attempts": job.attempts, "lost_leases": job.lost_leases, "releases": job.releases, "snoozes": job.snoozes}
    fields: dict[str, Any] = {"isolated": job.isolated, "error": reason, **counts, **changed}
    return Ending(status=outcome.status, name=outcome.name, reason=reason, **fields)


def has_form(text: str) -> bool:
    """Say whether any database can store the text: a lone surrogate has no form in UTF-8, and a NUL ends a text for some."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def lose(job: Job) -> Status:
    """Say where a job goes whose claim was lost (its lease ran out, or its process died).

    ``job`` is as it was when it was lost.
    """
    return Status.DEAD_LETTER if counts_as_try(job) and job.attempts >= job.max_attempts else Status.QUEUED


def attempts_after_loss(job: Job) -> int:
    """Say how many attempts count after a loss: the try is given back to a job that may be an innocent neighbour."""
    return job.attempts if counts_as_try(job) else max(job.attempts - 1, 0)


def counts_as_try(job: Job) -> bool:
    """Say whether the loss of this claim is charged to the job: it ran alone in its process, or has been lost all too often.

    The bound is for claims that are always lost before their handler starts, which would else go on for ever.
    """
    return job.ran_isolated or job.lost_leases + 1 >= MOST_LOSSES
