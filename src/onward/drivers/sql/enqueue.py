"""Enqueue as an operation: ids that exist already, keys in sorted order, then the rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from onward.drivers.sql.rows import key_expires, write_instant, write_new_job, write_scope
from onward.drivers.sql.statements import Many, Operation, Statement, as_json
from onward.errors import StoreBusy
from onward.jobs import Accepted, NewJob, uses_of_key
from onward.unique import answer_duplicate, answer_same_id

MOST_KEY_TRIES = 100


def enqueue(jobs: Sequence[NewJob], now: datetime) -> Operation[list[Accepted]]:
    """Store these jobs. Answers in the order asked. Raises ``DuplicateJob`` or ``KeyReused``; the caller then undoes the whole request."""
    now_text = write_instant(now)
    stored = yield from _stored(jobs)
    answers: dict[int, Accepted] = {}
    fresh: dict[str, int] = {}
    for position, job in enumerate(jobs):
        if job.id in stored:
            answers[position] = answer_same_id(job, *stored[job.id])
        elif job.id in fresh:
            first = jobs[fresh[job.id]]
            answers[position] = answer_same_id(job, first.type, first.payload_hash, first.owner)
        else:
            fresh[job.id] = position

    # Sorted, so that two callers who take several keys at once can never wait for each other.
    keyed = [position for position in fresh.values() if jobs[position].key is not None]
    for position in sorted(keyed, key=lambda one: (uses_of_key(jobs[one]), one)):
        answer = yield from take_key(jobs[position], now)
        if not answer.is_new:
            answers[position] = answer
    rows = [write_new_job(jobs[position], now, now_text) for position in fresh.values() if position not in answers]
    if rows and (overtaken := (yield Many("enqueue", rows))):
        yield from _answer_overtaken(jobs, {row[0] for row in overtaken}, answers)
    return [answers.get(position) or Accepted(job.id) for position, job in enumerate(jobs)]


def take_key(job: NewJob, now: datetime, *, scope: str | None = None) -> Operation[Accepted]:
    """Take the job's key, or say who holds it. ``scope`` is the stored text of a job that takes its key again."""
    owner, type_, key = uses_of_key(job)
    asked = {
        "owner": owner,
        "type": type_,
        "key": key,
        "job_id": job.id,
        "payload_hash": job.payload_hash,
        "expires_at": key_expires(scope or write_scope(job.scope), now),
        "now": write_instant(now),
    }
    where = {"owner": owner, "type": type_, "key": key}
    for _ in range(MOST_KEY_TRIES):
        if (yield Statement("take_key", asked)):
            return Accepted(job.id)
        holder = yield Statement("key_holder", where)
        if holder and holder[0][0] == job.id:  # its row is gone, or it is the one that asks for its key again
            return answer_same_id(job, job.type, holder[0][1], job.owner)
        if holder:
            return answer_duplicate(job, holder[0][0], holder[0][1])
        # The holder let go between the two statements: try again.
    raise StoreBusy(f"the key {key!r} of {type_} changed hands {MOST_KEY_TRIES} times while it was asked for: try again")


def _answer_overtaken(jobs: Sequence[NewJob], ids: set[str], answers: dict[int, Accepted]) -> Operation[None]:
    """Answer for jobs whose id another transaction stored after ``_stored`` had looked."""
    stored = yield from _stored([job for job in jobs if job.id in ids])
    for position, job in enumerate(jobs):
        if job.id in stored:
            answers[position] = answer_same_id(job, *stored[job.id])


def _stored(jobs: Sequence[NewJob]) -> Operation[dict[str, tuple[str, str, str]]]:
    rows = yield Statement("stored", {"ids": as_json([job.id for job in jobs])})
    return {row[0]: (row[1], row[2], row[3]) for row in rows}
