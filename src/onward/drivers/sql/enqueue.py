"""Enqueue as an operation: ids that exist already, keys in sorted order, then the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from onward.alerts import breaker_cause
from onward.breaker import refuses
from onward.drivers.sql.alerts import open_alerts
from onward.drivers.sql.breakers import read_breakers
from onward.drivers.sql.rows import key_expires, write_instant, write_new_job, write_scope
from onward.drivers.sql.statements import Many, Operation, Statement, as_json
from onward.errors import BreakerOpen, DuplicateJob, StoreBusy
from onward.jobs import Accepted, NewJob, uses_of_key
from onward.unique import answer_duplicate, answer_same_id

MOST_KEY_TRIES = 100
TOGETHER_FROM = 8
"""Keys of one request from which on it is quicker to take them together: that takes five statements, on a server five round trips."""


def is_plain(job: NewJob) -> bool:
    """Say whether nothing has to be looked up before it is stored."""
    return job.key is None and not job.refuses_open_breaker


def enqueue(jobs: Sequence[NewJob], now: datetime) -> Operation[list[Accepted]]:
    """Store these jobs. Answers in the order asked. Raises ``DuplicateJob`` or ``KeyReused`` for the first of them that is refused; the
    caller then undoes the whole request.
    """
    answers = yield from _enqueue(jobs, now, is_whole=True)
    _raise_first(answers)
    return [answer for answer in answers if isinstance(answer, Accepted)]


def enqueue_what_may(jobs: Sequence[NewJob], now: datetime) -> Operation[list[Accepted | DuplicateJob]]:
    """Store those of these jobs that are not refused. Answers in the order asked."""
    return (yield from _enqueue(jobs, now, is_whole=False))


def _enqueue(jobs: Sequence[NewJob], now: datetime, *, is_whole: bool) -> Operation[list[Accepted | DuplicateJob]]:
    """An answer for each. A whole request ends with the first refusal, so that it waits for no key that cannot matter any more."""
    now_text = write_instant(now)
    stored = yield from _stored(jobs)
    answers = {position: _same_id(job, *stored[job.id]) for position, job in enumerate(jobs) if job.id in stored}
    new: dict[str, NewJob] = {}
    left = [position for position in range(len(jobs)) if position not in answers]
    while left:  # once, but for an id that is asked for several times
        left = yield from _take_keys(jobs, left, now, new, answers, is_whole=is_whole)
    if is_whole:
        yield from _refuse_behind_breakers(new.values(), now)
    rows = []
    if not (is_whole and any(isinstance(answer, DuplicateJob) for answer in answers.values())):
        rows = [write_new_job(job, now, now_text) for job in new.values()]
    if rows and (overtaken := (yield Many("enqueue", rows))):
        yield from _answer_overtaken(jobs, {row[0] for row in overtaken}, new, answers)
    return [answers.get(position) or Accepted(job.id) for position, job in enumerate(jobs)]


def _refuse_behind_breakers(jobs: Iterable[NewJob], now: datetime) -> Operation[None]:
    """Raise ``BreakerOpen`` for the first of these that asks for it."""
    keys = [job.breaker for job in jobs if job.refuses_open_breaker and job.breaker is not None]
    if not keys:
        return
    states, alive = yield from read_breakers(set(keys))
    for key in keys:
        if key in states and refuses(states[key], key in alive, now):
            alerts = yield from open_alerts([breaker_cause(key)])
            alert = alerts.get(breaker_cause(key))
            raise BreakerOpen(key, retry_at=states[key].retry_at, alert_id=None if alert is None else alert.id)


def _same_id(job: NewJob, type_: str, payload_hash: str, owner: str) -> Accepted | DuplicateJob:
    try:
        return answer_same_id(job, type_, payload_hash, owner)
    except DuplicateJob as refusal:
        return refusal


def _raise_first(answers: list[Accepted | DuplicateJob]) -> None:
    """Keys are taken in an order of their own; which refusal is told is a matter of the order asked."""
    for answer in answers:
        if isinstance(answer, DuplicateJob):
            raise answer


def _take_keys(
    jobs: Sequence[NewJob],
    positions: list[int],
    now: datetime,
    new: dict[str, NewJob],
    answers: dict[int, Accepted | DuplicateJob],
    *,
    is_whole: bool,
) -> Operation[list[int]]:
    """Make the first request for each id a new job, or answer it with the holder of its key. Gives the others, to be judged behind it."""
    firsts: dict[str, int] = {}
    again: list[int] = []
    for position in positions:
        job = jobs[position]
        if (same := new.get(job.id)) is not None:
            answers[position] = _same_id(job, same.type, same.payload_hash, same.owner)
        elif job.id in firsts:
            again.append(position)
        else:
            firsts[job.id] = position
    # Sorted, so that two callers who take several keys at once can never wait for each other.
    keyed = [position for position in firsts.values() if jobs[position].key is not None]
    keyed.sort(key=lambda one: (uses_of_key(jobs[one]), one))
    if len(keyed) >= TOGETHER_FROM:
        keyed = yield from _take_together(jobs, keyed, now, answers, is_whole=is_whole)
    first = _first_refused(answers, len(jobs))
    for position in keyed:
        if is_whole and position > first:
            continue
        try:
            answer: Accepted | DuplicateJob = yield from take_key(jobs[position], now)
        except DuplicateJob as refusal:
            answer, first = refusal, min(first, position)
        if isinstance(answer, DuplicateJob) or not answer.is_new:
            answers[position] = answer
    new.update((id_, jobs[position]) for id_, position in firsts.items() if position not in answers)
    return again


def _take_together(
    jobs: Sequence[NewJob], positions: list[int], now: datetime, answers: dict[int, Accepted | DuplicateJob], *, is_whole: bool
) -> Operation[list[int]]:
    """Answer those whose keys are held, then take all the other keys, or none of them. Gives those that have to be asked for singly.

    Not some of them: what is taken later would come out of the order in which everybody takes keys.
    """
    uses = {position: uses_of_key(jobs[position]) for position in positions}
    asked = [[position, *uses[position]] for position in positions]
    for position, holder, payload_hash in (yield Statement("held_keys", {"rows": as_json(asked), "now": write_instant(now)}, len(asked))):
        if holder != jobs[position].id:
            answers[position] = _duplicate(jobs[position], holder, payload_hash)
    left = [position for position in positions if position not in answers]
    if is_whole and _first_refused(answers, len(jobs)) < len(jobs):
        return left
    firsts = {uses[position]: position for position in reversed(left)}
    rows = [_key_row(jobs[position], now) for position in left if firsts[uses[position]] == position]
    if not rows:
        return left
    yield Statement("inner_savepoint")
    taken = yield Statement("take_keys", {"rows": as_json(rows), "now": write_instant(now)}, len(rows))
    if len(taken) < len(rows):  # another request was quicker, or a window is over and its key has to be taken over
        yield Statement("undo_inner_savepoint")
    yield Statement("release_inner_savepoint")
    return left if len(taken) < len(rows) else [position for position in left if firsts[uses[position]] != position]


def _duplicate(job: NewJob, holder: str, payload_hash: str) -> Accepted | DuplicateJob:
    try:
        return answer_duplicate(job, holder, payload_hash)
    except DuplicateJob as refusal:
        return refusal


def _key_row(job: NewJob, now: datetime) -> list[str | None]:
    return [*uses_of_key(job), job.id, job.payload_hash, key_expires(write_scope(job.scope), now)]


def _first_refused(answers: Mapping[int, Accepted | DuplicateJob], otherwise: int) -> int:
    return min((position for position, answer in answers.items() if isinstance(answer, DuplicateJob)), default=otherwise)


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


def _answer_overtaken(
    jobs: Sequence[NewJob], ids: set[str], new: Mapping[str, NewJob], answers: dict[int, Accepted | DuplicateJob]
) -> Operation[None]:
    """Answer for jobs whose id another transaction stored after ``_stored`` had looked.

    That one asked for another key, or it would have held up this one's: whose it is now, nobody would ever give back.
    """
    for id_ in ids:
        if new[id_].key is not None:
            owner, type_, key = uses_of_key(new[id_])
            yield Statement("drop_key", {"owner": owner, "type": type_, "key": key, "job_id": id_})
    stored = yield from _stored([job for job in jobs if job.id in ids])
    for position, job in enumerate(jobs):
        if job.id in stored:
            answers[position] = _same_id(job, *stored[job.id])


def _stored(jobs: Sequence[NewJob]) -> Operation[dict[str, tuple[str, str, str]]]:
    rows = yield Statement("stored", {"ids": as_json([job.id for job in jobs])})
    return {row[0]: (row[1], row[2], row[3]) for row in rows}
