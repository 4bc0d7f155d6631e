"""What a person or a program does to single jobs, as operations: read, list, cancel, retry, run now, delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from onward.drivers.sql.enqueue import take_key
from onward.drivers.sql.rows import COLUMNS, read_attempts, read_job, read_jobs, write_instant
from onward.drivers.sql.settle import settle
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.drivers.sql.waits import Shared, let_go
from onward.errors import DuplicateJob, IllegalTransition, JobNotFound, LeaseLost
from onward.inspection import MEANT_FOR, BulkVerb, JobFilter
from onward.jobs import Attempt, Job, NewJob
from onward.outcome import has_form, storable
from onward.status import Status, Verb, is_legal, why_not, why_not_deleted
from onward.turn import Claim, Settlement
from onward.unique import refuse_retry

Statuses: TypeAlias = Sequence[Status]
_ID, _STATUS, _KEY = (COLUMNS.index(name) for name in ("id", "status", "idempotency_key"))
_SERIAL_KEY, _CONCURRENCY_KEY = COLUMNS.index("serial_key"), COLUMNS.index("concurrency_key")
ARROWS: dict[BulkVerb, Verb] = {"cancel": Verb.CANCEL, "retry": Verb.RETRY_BY_HAND, "run_now": Verb.RUN_NOW}


def get(job_id: str, owner: str | None) -> Operation[Job]:
    """Read one job. Raises ``JobNotFound``, also for another owner's."""
    _check_text(job_id, owner)
    rows = yield Statement("get", {"id": job_id, "owner": owner})
    if not rows:
        raise JobNotFound(job_id)
    return read_job(rows[0])


def _check_text(job_id: str, owner: str | None) -> None:
    """Raise ``JobNotFound`` for what no database could have stored: ids come from URLs and shells."""
    if not has_form(job_id) or not has_form(owner or ""):
        raise JobNotFound(storable(job_id))


def find(where: JobFilter, limit: int, before: str | None) -> Operation[list[Job]]:
    """Read a page, newest first. A row that cannot be read is left out: ``get`` says what is wrong with it."""
    if not _can_match(where):
        return []
    while True:
        rows = yield Statement("find", _narrow(where) | {"limit": limit, "before": before})
        jobs = read_jobs(rows)[0]
        if jobs or len(rows) < limit or not isinstance(rows[-1][0], str):
            return jobs
        before = rows[-1][0]  # a whole page that cannot be read does not hide those behind it


def find_active(types: Sequence[str], key: str, owner: str) -> Operation[Job | None]:
    """Read the live job that holds a key."""
    if not has_form(key + owner):
        return None
    rows = yield Statement("find_active", {"types": as_json(types), "key": key, "owner": owner})
    return read_job(rows[0]) if rows else None


def count(where: JobFilter) -> Operation[int]:
    """Count the jobs that match."""
    if not _can_match(where):
        return 0
    rows = yield Statement("count", _narrow(where))
    return int(rows[0][0])


def _can_match(where: JobFilter) -> bool:
    """False where no row can be meant: of a list, one text that a database can hold is enough."""
    lists = (where.ids, where.types, where.queues)
    return all(not texts or any(map(has_form, texts)) for texts in lists) and has_form(where.key or "") and has_form(where.owner or "")


def _narrow(where: JobFilter) -> dict[str, str | None]:
    return {
        "ids": _storable_ones(where.ids),
        "statuses": as_json([one.value for one in where.statuses]) if where.statuses else None,
        "types": _storable_ones(where.types),
        "queues": _storable_ones(where.queues),
        "key": where.key,
        "owner": where.owner,
        "finished_after": None if where.finished_after is None else write_instant(where.finished_after),
    }


def _storable_ones(texts: Sequence[str]) -> str | None:
    return as_json([text for text in texts if has_form(text)]) if texts else None


def history(job_id: str) -> Operation[list[Attempt]]:
    """Read a job's attempts, oldest first."""
    if not has_form(job_id):
        return []
    rows = yield Statement("history", {"id": job_id})
    return read_attempts(rows)


def held(lease_owner: str) -> Operation[list[Job]]:
    """Read what is in progress under this owner."""
    rows = yield Statement("held", {"lease_owner": lease_owner})
    return read_jobs(rows)[0]


def cancel_requested(lease_owner: str) -> Operation[frozenset[str]]:
    """Read which of this owner's running jobs a person asked to cancel."""
    rows = yield Statement("cancel_requested", {"lease_owner": lease_owner})
    return frozenset(row[0] for row in rows)


def cancel(job_id: str, owner: str | None, now: datetime, *, frees: bool = True) -> Operation[Job]:
    """Cancel a waiting job, or ask a running one to stop. ``frees`` as for ``settle``; without it the next sweep does it."""
    _check_text(job_id, owner)
    rows = yield from cancel_each([job_id], owner, now, frees=frees)
    return (yield from _changed(rows, job_id, owner, Verb.CANCEL))


def cancel_each(
    job_ids: Sequence[str], owner: str | None, now: datetime, statuses: Statuses = (), *, frees: bool = True
) -> Operation[list[Row]]:
    """``cancel`` for all of these that can be, and still have one of these statuses if any are given; gives their rows."""
    asked = {"ids": as_json(job_ids), "owner": owner, "now": write_instant(now), "statuses": _listed(statuses)}
    rows = yield Statement("cancel", asked)
    # By place, not as jobs: others wait for the rows meanwhile, and on SQLite for the file.
    ended = [row[_ID] for row in rows if row[_STATUS] == Status.CANCELLED.value and row[_KEY] is not None]
    if ended:
        yield Statement("free_keys", {"ids": as_json(ended)})
    if frees:
        # A job that wants a place may have been let go on for one, and nobody else would be told that it is free.
        left = (Shared(row[_SERIAL_KEY], row[_CONCURRENCY_KEY]) for row in rows if row[_STATUS] == Status.CANCELLED.value)
        yield from let_go(left, now)
    return rows


def retry(job_id: str, owner: str | None, now: datetime) -> Operation[Job]:
    """Queue a dead-lettered or cancelled job again; its key first, so that a held one changes nothing."""
    job = yield from get(job_id, owner)
    if not is_legal(job.status, Verb.RETRY_BY_HAND):
        raise IllegalTransition(why_not(job_id, job.status, Verb.RETRY_BY_HAND))
    if job.idempotency_key is not None:
        rows = yield Statement("scope", {"id": job_id})
        if not rows:  # pruned in this moment
            raise JobNotFound(job_id)
        try:
            yield from take_key(_asking_again(job), now, scope=rows[0][0] or "active")
        except DuplicateJob as held:
            raise refuse_retry(job, held.job_id) from None
    rows = yield from retry_each([job_id], now)
    return (yield from _changed(rows, job_id, owner, Verb.RETRY_BY_HAND))


def retry_each(job_ids: Sequence[str], now: datetime, statuses: Statuses = ()) -> Operation[list[Row]]:
    """Queue all of these again that can be, whose keys have been taken; gives their rows. ``statuses`` as for ``cancel_each``."""
    return (yield Statement("retry", {"ids": as_json(job_ids), "now": write_instant(now), "statuses": _listed(statuses)}))


def _asking_again(job: Job) -> NewJob:
    return NewJob(
        id=job.id,
        type=job.type,
        payload=job.payload,
        payload_hash=job.payload_hash,
        owner=job.owner,
        key=job.idempotency_key,
        on_duplicate="raise",
    )


def run_now(job_id: str, owner: str | None, now: datetime) -> Operation[Job]:
    """Make a waiting job due now."""
    _check_text(job_id, owner)
    rows = yield from run_each_now([job_id], owner, now)
    return (yield from _changed(rows, job_id, owner, Verb.RUN_NOW))


def run_each_now(job_ids: Sequence[str], owner: str | None, now: datetime, statuses: Statuses = ()) -> Operation[list[Row]]:
    """Make all of these due that wait; gives their rows. ``statuses`` as for ``cancel_each``."""
    asked = {"ids": as_json(job_ids), "owner": owner, "now": write_instant(now), "statuses": _listed(statuses)}
    return (yield Statement("run_now", asked))


def delete(job_id: str, owner: str | None, now: datetime) -> Operation[None]:
    """Remove a job that is not running, with its history and its key of scope ``active``."""
    _check_text(job_id, owner)
    if not (yield from delete_each([job_id], owner, now)):
        yield from get(job_id, owner)  # which says that there is none
        raise IllegalTransition(why_not_deleted(job_id))


def delete_each(job_ids: Sequence[str], owner: str | None, now: datetime, statuses: Statuses = ()) -> Operation[list[str]]:
    """``delete`` for all of these that can be; gives their ids. ``statuses`` as for ``cancel_each``.

    The rows first: a retry that has taken its key and not committed holds its row, and only behind that its key can be seen.
    """
    rows = yield Statement("delete", {"ids": as_json(job_ids), "owner": owner, "statuses": _listed(statuses)})
    deleted = [row[0] for row in rows]
    keyed = [[owner_, type_, key, id_] for id_, owner_, type_, key, *_ in rows if key is not None]
    if keyed:
        yield Statement("free_keys_of", {"rows": as_json(keyed)})
    if deleted:
        yield Statement("delete_history", {"ids": as_json(deleted)})
    yield from let_go((Shared(serial_key, concurrency_key) for *_, serial_key, concurrency_key in rows), now)
    return deleted


def _listed(statuses: Statuses) -> str | None:
    return as_json([one.value for one in statuses]) if statuses else None


def refusal(job_id: str, verb: BulkVerb, statuses: Statuses) -> Operation[str]:
    """Why a verb changed nothing of a job that was to have one of these statuses."""
    try:
        job = yield from get(job_id, None)
    except JobNotFound as gone:
        return str(gone)
    if job.status not in statuses and job.status in MEANT_FOR[verb]:
        return f"job {job_id} is {job.status} by now"
    return why_not_deleted(job_id) if verb == "delete" else why_not(job_id, job.status, ARROWS[verb])


def _changed(rows: list[Row], job_id: str, owner: str | None, verb: Verb) -> Operation[Job]:
    if rows:
        return read_job(rows[0])
    job = yield from get(job_id, owner)
    raise IllegalTransition(why_not(job_id, job.status, verb))


def confirm(claim: Claim, now: datetime) -> Operation[None]:
    """Take the write lock and prove that the claim is the newest. Raises ``LeaseLost``."""
    if not (yield Statement("confirm", {"id": claim.id, "fence": claim.fence, "now": write_instant(now)})):
        raise _lost(claim)


def settle_one(settlement: Settlement, now: datetime) -> Operation[None]:
    """Settle in a caller's transaction. Raises ``LeaseLost``."""
    if (yield from settle([settlement], now, frees=False)).lost:
        raise _lost(settlement.claim)


def _lost(claim: Claim) -> LeaseLost:
    return LeaseLost(f"the claim {claim.fence} of job {claim.id} is not the newest any more: its lease ran out, or it has ended")
