"""How a row becomes a ``Job`` and an instant becomes text, once for all SQL backends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from onward.actions import Action
from onward.drivers.sql.statements import Row
from onward.errors import StoreError
from onward.jobs import Attempt, Job, NewJob, Scope, why_unusable

T = TypeVar("T")
COLUMNS: tuple[str, ...] = tuple(Job.__struct_fields__)
INSTANTS = ("lease_until", "expires_at", "cancel_requested_at", "created_at", "updated_at", "started_at", "finished_at")
ATTEMPT_COLUMNS: tuple[str, ...] = tuple(Attempt.__struct_fields__)
ACTION_COLUMNS: tuple[str, ...] = tuple(Action.__struct_fields__)
_decode_jobs = msgspec.json.Decoder(list[Job]).decode
FOREVER = "9999-12-31T23:59:59.999999Z"
"""``expires_at`` of a key that is never given back. A key of scope ``active`` has none."""


class UnreadableRow(StoreError):
    """A row does not have the form of a job: somebody wrote it by hand. ``job_id`` and ``reason`` say which and why."""

    def __init__(self, job_id: Any, reason: str) -> None:
        super().__init__(f"job {job_id} cannot be read ({reason}): correct its row, or delete it")
        self.job_id = job_id
        self.reason = reason


def write_instant(moment: datetime) -> str:
    """Write an instant as ISO-8601 text of fixed width, so that text sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def read_instant(text: str) -> datetime:
    """Read what ``write_instant`` wrote."""
    return datetime.fromisoformat(text)


def read_any_instant(text: Any) -> datetime | None:
    """The same of what somebody may have written by hand. None where it is no instant, or says nothing of its zone."""
    try:
        instant = read_instant(text)
    except (TypeError, ValueError):
        return None
    return instant if instant.tzinfo is not None else None


def read_job(row: Row) -> Job:
    """Make a ``Job`` of a row of ``COLUMNS``. Raises ``UnreadableRow``."""
    return _read_fields(dict(zip(COLUMNS, row, strict=True)))


def _read_fields(fields: dict[str, Any]) -> Job:
    fields["isolated"] = fields["isolated"] != 0
    fields["ran_isolated"] = fields["ran_isolated"] != 0
    try:
        job = msgspec.convert(fields, Job)
    except msgspec.ValidationError as error:
        raise UnreadableRow(fields["id"], str(error)) from None
    if job.scheduled_at.tzinfo is None:
        raise UnreadableRow(job.id, "scheduled_at has no time zone")
    if _is_aware(job):
        return job
    # Of these none decides when the job runs: they count as UTC, so that a row written by hand can be shown.
    naive = {name: moment.replace(tzinfo=UTC) for name in INSTANTS if (moment := getattr(job, name)) is not None and moment.tzinfo is None}
    return replace(job, **naive)


def _is_aware(job: Job) -> bool:
    # Written out: a loop over the names took five times as long, and this is asked for each job.
    return (
        job.created_at.tzinfo is not None
        and job.updated_at.tzinfo is not None
        and ((moment := job.started_at) is None or moment.tzinfo is not None)
        and ((moment := job.lease_until) is None or moment.tzinfo is not None)
        and ((moment := job.expires_at) is None or moment.tzinfo is not None)
        and ((moment := job.finished_at) is None or moment.tzinfo is not None)
        and ((moment := job.cancel_requested_at) is None or moment.tzinfo is not None)
    )


def read_objects(text: str | bytes) -> list[Job] | None:
    """Make jobs of one JSON text. None if a single one of them needs a closer look, as ``read_job`` takes it."""
    try:
        jobs = _decode_jobs(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return jobs if all(job.scheduled_at.tzinfo is not None and _is_aware(job) for job in jobs) else None


def read_jobs(rows: list[Row]) -> tuple[list[Job], list[UnreadableRow]]:
    """Make jobs of rows, and set aside those that cannot be read."""
    return _read_each(rows, read_job)


def _read_each(many: Iterable[T], read: Callable[[T], Job]) -> tuple[list[Job], list[UnreadableRow]]:
    jobs, unreadable = [], []
    for one in many:
        try:
            jobs.append(read(one))
        except UnreadableRow as error:
            unreadable.append(error)
    return jobs, unreadable


def read_workable(rows: list[Row]) -> tuple[list[Job], list[UnreadableRow]]:
    """As ``read_jobs``, for rows that a worker is to work with: sets aside also those that read well and are of no use to it."""
    return _workable(*read_jobs(rows))


def read_workable_objects(texts: list[str]) -> tuple[list[Job], list[UnreadableRow]]:
    """The same for jobs that come as a JSON text each."""
    jobs = read_objects(f"[{','.join(texts)}]")
    if jobs is not None:
        return sort_out_unusable(jobs)
    return _workable(*_read_each(texts, lambda text: _read_fields(msgspec.json.decode(text))))


def _workable(jobs: list[Job], unreadable: list[UnreadableRow]) -> tuple[list[Job], list[UnreadableRow]]:
    workable, unusable = sort_out_unusable(jobs)
    return workable, unreadable + unusable


def sort_out_unusable(jobs: list[Job]) -> tuple[list[Job], list[UnreadableRow]]:
    """Set aside jobs that read well and are of no use to a worker."""
    objections = {job.id: reason for job in jobs if (reason := why_unusable(job)) is not None}
    if not objections:
        return jobs, []
    return [job for job in jobs if job.id not in objections], [UnreadableRow(id_, reason) for id_, reason in objections.items()]


def read_attempts(rows: list[Row]) -> list[Attempt]:
    """Make attempts of rows of ``ATTEMPT_COLUMNS``. One that cannot be read is left out: the others still tell what they have to."""
    attempts = []
    for row in rows:
        try:
            attempts.append(msgspec.convert(dict(zip(ATTEMPT_COLUMNS, row, strict=True)), Attempt))
        except msgspec.ValidationError:
            continue
    return attempts


def write_new_job(job: NewJob, now: datetime, now_text: str | None) -> dict[str, Any]:
    """Give the parameters of the insert. Delays become instants here. What is due ``now`` gets ``now_text``."""
    scheduled = job.at if job.at is not None else (now + job.delay if job.delay else now)
    return {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "payload": job.payload,
        "payload_hash": job.payload_hash,
        "scheduled_at": now_text if scheduled is now else write_instant(scheduled),
        "expires_at": None if job.expires is None else write_instant(scheduled + job.expires),
        "max_attempts": job.max_attempts,
        "isolated": int(job.isolated),
        "idempotency_key": job.key,
        "scope": None if job.key is None else write_scope(job.scope),
        "concurrency_key": job.concurrency_key,
        "serial_key": job.serial_key,
        "breaker": job.breaker,
        "owner": job.owner,
        "metadata": job.metadata,
        "now": now_text,
    }


def write_scope(scope: Scope) -> str:
    """Write a scope as text: ``active``, ``forever``, or the seconds of a window."""
    return str(scope.total_seconds()) if isinstance(scope, timedelta) else scope


def key_expires(scope: str, now: datetime) -> str | None:
    """Say what ``keys.expires_at`` is for a key taken now; none where the end of the job frees it."""
    if scope == "active":
        return None
    return FOREVER if scope == "forever" else write_instant(now + timedelta(seconds=float(scope)))
