"""Invariants of what somebody does to many jobs and to their queue: a pause is a pause, and the record says what was done."""

from __future__ import annotations

from collections.abc import Iterator

from tests.torture.evidence import CLOCK, Broken, Run
from tests.torture.history import LETTER

ARROWS = {"cancel": ("queued", "cancelled"), "retry": ("cancelled", "queued")}
"""What a verb for many does to each letter that it changes: it is meant for those of one status."""


def paused_queues_rest(run: Run) -> Broken:
    """I21: no claim of a paused queue is made after the pause was answered and before a resume was asked for."""
    claims = [row for row in run.rows.audit if row.after == "in_progress" and _is_letter(run, row.job_id)]
    for begin, end in pauses(run):
        for row in claims:
            if begin + CLOCK < row.at < end - CLOCK:
                yield f"job {row.job_id}, fence {row.fence}, was claimed {row.at - begin:.3f} s after its queue was paused"


def pauses(run: Run) -> Iterator[tuple[float, float]]:
    """From the answer to a pause until somebody asks for the next resume, whoever it is: one may be killed in between."""
    begin: float | None = None
    for event in run.events:
        if event.kind == "answered" and event.what == "pause" and not event.detail:
            begin = event.at
        elif event.kind == "asked" and event.what == "resume" and begin is not None:
            yield begin, event.at
            begin = None
    if begin is not None:
        yield begin, float("inf")


def records_add_up(run: Run) -> Broken:
    """I22: the sums of the record are what the rows went through, whoever was killed meanwhile, and each answer is what its record says."""
    changes = [(row.before, row.after) for row in run.rows.audit if _is_letter(run, row.job_id)]
    for verb, arrow in ARROWS.items():
        recorded = sum(action.done for action in run.rows.actions if action.verb == verb)
        if recorded != changes.count(arrow):
            yield f"by the record, {verb} has changed {recorded} letters, and {changes.count(arrow)} went from {arrow[0]} to {arrow[1]}"
    records = {action.id: action for action in run.rows.actions}
    for event in run.of_kind("answered"):
        record = records.get(event.action)
        if event.action and record is None:
            yield f"the record of {event.what} {event.action} is missing"
        elif record is not None and (record.verb, record.done) != (event.what, event.count):
            yield f"{event.what} {event.action} was answered with {event.count}, and its record says {record.verb} {record.done}"
    net = sum((action.verb == "pause") * action.done - (action.verb == "resume") * action.done for action in run.rows.actions)
    if net != len(run.rows.paused):
        yield f"by the record {net} queues are paused, and these are: {', '.join(run.rows.paused) or 'none'}"


def _is_letter(run: Run, job_id: str) -> bool:
    return job_id in run.jobs and run.jobs[job_id].type == LETTER
