"""One verb of a person's for many jobs, as an operation: what is plain by one statement for all, the rest one by one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from onward.drivers.sql import actions, people
from onward.drivers.sql.rows import read_jobs
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.errors import DuplicateJob, IllegalTransition, JobNotFound
from onward.inspection import Acted, BulkVerb
from onward.status import Status


def act(verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status], now: datetime, action: str | None = None) -> Operation[Acted]:
    """Do it to each that still has one of these statuses; what refuses it changes nothing of that job. Counted in the action's record."""
    acted = yield from _act(verb, job_ids, statuses, now)
    if action is not None:
        yield from actions.count(action, acted)
    return acted


def _act(verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status], now: datetime) -> Operation[Acted]:
    match verb:
        case "cancel":
            rows = yield from people.cancel_each(job_ids, None, now, statuses)
            done = {row[0] for row in rows}
        case "run_now":
            rows = yield from people.run_each_now(job_ids, None, now, statuses)
            done = {row[0] for row in rows}
        case "delete":
            done = set((yield from people.delete_each(job_ids, None, now, statuses)))
        case "retry":
            return (yield from _retry(job_ids, statuses, now))
    return (yield from _sort_out(verb, job_ids, statuses, done))


def _retry(job_ids: Sequence[str], statuses: Sequence[Status], now: datetime) -> Operation[Acted]:
    """A key can be held, and then its job is refused."""
    shown: list[Row] = yield Statement("shown", {"ids": as_json(job_ids)})
    keyed = {job.id for job in read_jobs(shown)[0] if job.idempotency_key is not None and job.status in statuses}
    plain = [job_id for job_id in job_ids if job_id not in keyed]
    rows = yield from people.retry_each(plain, now, statuses)
    acted = yield from _sort_out("retry", plain, statuses, {row[0] for row in rows})
    refused = dict(acted.refused)
    for job_id in job_ids:
        if job_id not in keyed:
            continue
        yield Statement("inner_savepoint")
        try:
            yield from people.retry(job_id, None, now)
        except (IllegalTransition, JobNotFound, DuplicateJob) as refusal:
            refused[job_id] = str(refusal)
            yield Statement("undo_inner_savepoint")
        yield Statement("release_inner_savepoint")
    return Acted(tuple(job_id for job_id in job_ids if job_id not in refused), refused)


def _sort_out(verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status], done: Collection[str]) -> Operation[Acted]:
    refused: dict[str, str] = {}
    for job_id in job_ids:
        if job_id not in done:
            refused[job_id] = yield from people.refusal(job_id, verb, statuses)
    return Acted(tuple(job_id for job_id in job_ids if job_id in done), refused)
