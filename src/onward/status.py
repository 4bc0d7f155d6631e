"""The statuses of a job and every legal arrow between them, as one table.

Code asks the table, ``docs/reference/states.md`` is drawn from it, and the conformance suite walks every
(status, verb) pair over every backend.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where a job is. The same words in Python, SQL, JSON, the command line and logs."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    RETRYING = "retrying"
    COMPLETED = "completed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True when no worker will touch the job again by itself."""
        return self in FINAL

    @property
    def is_live(self) -> bool:
        """True when the job still holds its key of scope ``active``."""
        return self in LIVE

    @property
    def is_claimable(self) -> bool:
        """True when a worker may claim the job once it is due."""
        return self in CLAIMABLE


class Verb(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    DEAD_LETTER = "dead-letter"
    RELEASE = "release"
    SNOOZE = "snooze"
    LOSE = "lose"
    CANCEL = "cancel"
    RUN_NOW = "run now"
    RETRY_BY_HAND = "retry by a person"


QUEUED, IN_PROGRESS, RETRYING = Status.QUEUED, Status.IN_PROGRESS, Status.RETRYING
COMPLETED, DEAD_LETTER, CANCELLED = Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED

# A tuple of more than one status: the rule that chooses between them is named in the note.
TRANSITIONS: dict[tuple[Status, Verb], tuple[Status, ...]] = {
    (QUEUED, Verb.CLAIM): (IN_PROGRESS,),
    (RETRYING, Verb.CLAIM): (IN_PROGRESS,),
    (IN_PROGRESS, Verb.COMPLETE): (COMPLETED,),
    (IN_PROGRESS, Verb.RETRY): (RETRYING,),
    (IN_PROGRESS, Verb.DEAD_LETTER): (DEAD_LETTER,),
    (IN_PROGRESS, Verb.RELEASE): (QUEUED,),
    (IN_PROGRESS, Verb.SNOOZE): (QUEUED,),
    (IN_PROGRESS, Verb.LOSE): (QUEUED, DEAD_LETTER),
    (IN_PROGRESS, Verb.CANCEL): (CANCELLED,),
    (QUEUED, Verb.CANCEL): (CANCELLED,),
    (RETRYING, Verb.CANCEL): (CANCELLED,),
    (QUEUED, Verb.RUN_NOW): (QUEUED,),
    (RETRYING, Verb.RUN_NOW): (QUEUED,),
    (DEAD_LETTER, Verb.RETRY_BY_HAND): (QUEUED,),
    (CANCELLED, Verb.RETRY_BY_HAND): (QUEUED,),
}

NOTES: dict[tuple[Status, Verb], str] = {
    (QUEUED, Verb.CLAIM): "due, not blocked; attempts and fence go up by one",
    (RETRYING, Verb.CLAIM): "due, not blocked; attempts and fence go up by one",
    (IN_PROGRESS, Verb.COMPLETE): "final: to run it again, enqueue a copy",
    (IN_PROGRESS, Verb.RETRY): "failed, tries left: scheduled_at = now + back-off",
    (IN_PROGRESS, Verb.DEAD_LETTER): "permanent error, invalid payload, or tries used up",
    (IN_PROGRESS, Verb.RELEASE): "the worker is stopping: the try is given back",
    (IN_PROGRESS, Verb.SNOOZE): "asked for by the handler: the try is given back",
    (
        IN_PROGRESS,
        Verb.LOSE,
    ): "the lease ran out, or the process died; dead only if its handler ran alone there (or was lost 20 times) and no try is left",
    (IN_PROGRESS, Verb.CANCEL): "the handler returned Cancel, or cancellation was requested and it did not complete",
    (QUEUED, Verb.CANCEL): "by a person; also when it expired",
    (RETRYING, Verb.CANCEL): "by a person; also when it expired",
    (QUEUED, Verb.RUN_NOW): "by a person: scheduled_at = now",
    (RETRYING, Verb.RUN_NOW): "by a person: scheduled_at = now",
    (DEAD_LETTER, Verb.RETRY_BY_HAND): "attempts = 0, error cleared, history kept, the key taken again",
    (CANCELLED, Verb.RETRY_BY_HAND): "attempts = 0, error cleared, history kept, the key taken again",
}

CLAIMABLE = frozenset(status for status, verb in TRANSITIONS if verb is Verb.CLAIM)
LIVE = CLAIMABLE | {IN_PROGRESS}
FINAL = frozenset(Status) - LIVE


def why_not(job_id: str, status: Status, verb: Verb) -> str:
    """Word the refusal of an arrow that is not in the table."""
    allowed = " or ".join(known for known, possible in TRANSITIONS if possible is verb)
    return f"job {job_id} is {status}: '{verb}' is only for a job that is {allowed}"


def why_not_deleted(job_id: str) -> str:
    """Word the refusal to delete a job that runs."""
    return f"job {job_id} is {IN_PROGRESS} and cannot be deleted: cancel it, and delete it when it has ended"


def is_legal(status: Status, verb: Verb) -> bool:
    """Say whether ``verb`` may happen to a job in ``status``."""
    return (status, verb) in TRANSITIONS
