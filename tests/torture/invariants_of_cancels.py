"""Invariants of what was cancelled: an answer is kept to, and a running job ends in time."""

from __future__ import annotations

from collections import Counter

from tests.torture.cancelled import REFUSED
from tests.torture.evidence import CLOCK, FINAL_NAMES, Broken, Run
from tests.torture.history import Event
from tests.torture.invariants_of_time import longest_watch

GRACE = 5.0
"""Seconds that a handler gets once it is told."""


def cancelled_jobs_end(run: Run) -> Broken:
    """I24: a job that was cancelled while it waited stays so; one that was asked to stop is not claimed again, and ends completed or
    cancelled within the grace and a recovery of any worker's life; a request is refused only where the job had ended.
    """
    for answer in run.of_kind("answered"):
        changes = run.audit.get(answer.job, [])
        if answer.job not in run.jobs or answer.job in run.out_of_turn:
            continue
        end = next((row for row in changes if row.after in FINAL_NAMES), None)
        if answer.detail == REFUSED:
            if end is None or end.at > answer.at + CLOCK:
                yield f"job {answer.job} was said to have ended, and had not"
            continue
        for row in changes:
            if row.after == "in_progress" and row.fence > answer.fence:
                yield f"job {answer.job} was {answer.detail} at fence {answer.fence} when it was cancelled, and was claimed once more"
        if end is not None:
            yield from _ends_rightly(run, answer, end.after, end.at)


def _ends_rightly(run: Run, answer: Event, status: str, at: float) -> Broken:
    if status not in (("cancelled",) if answer.detail == "cancelled" else ("cancelled", "completed")):
        yield f"job {answer.job} was {answer.detail} when it was cancelled, and ended {status}"
    watched = longest_watch(run, answer.at, at)
    if watched > GRACE + run.recovery:
        yield f"job {answer.job} ended {at - answer.at:.1f} s after it was cancelled, and one worker was there for {watched:.1f} s of them"


def count_cancels(run: Run) -> dict[str, int]:
    """What was answered, and what became of those that ran."""
    answers = [answer for answer in run.of_kind("answered") if answer.job]
    said = Counter(answer.detail for answer in answers)
    ends = Counter(run.jobs[answer.job].status for answer in answers if answer.detail == "in_progress" and answer.job in run.jobs)
    return {
        "cancelled while they waited": said["cancelled"],
        "cancelled while they ran": ends["cancelled"],
        "completed although cancelled": ends["completed"],
        "cancelled too late": said[REFUSED],
    }
