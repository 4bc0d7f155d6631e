"""What users may be told of a job that failed. ``Job.error`` is for the people who run the application, never for its users."""

from __future__ import annotations

from onward.jobs import Job
from onward.status import Status

FAILED = "It failed. Please try again later."
CANCELLED = "It was cancelled."
LONGEST_REASON = 300
_ON_PURPOSE = "PermanentJobError: "


def public_reason(job: Job) -> str | None:
    """Say why a job ended without completing, in words that give nothing away; None for any other job.

    The message of a ``PermanentJobError`` was written on purpose, and is given: its first line, at most 300 characters. Of everything
    else, subclasses of it included, only that it failed: a message may hold addresses, names of tables or another user's data.
    """
    if job.status is Status.CANCELLED:
        return CANCELLED
    if job.status is not Status.DEAD_LETTER:
        return None
    # A stored error begins with the full name of its class, so no message of another error can pass for one.
    first_line = (job.error or "").partition("\n")[0]
    if not first_line.startswith(_ON_PURPOSE):
        return FAILED
    message = first_line.removeprefix(_ON_PURPOSE).strip()
    if len(message) > LONGEST_REASON:
        return f"{message[: LONGEST_REASON - 1]}…"
    return message or FAILED
