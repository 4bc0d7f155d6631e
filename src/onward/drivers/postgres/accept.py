"""Several independent enqueues in one commit, each stored whole or not at all; one of a single job in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import psycopg

from onward.drivers.postgres.connections import StoreConnection
from onward.drivers.postgres.database import Database
from onward.drivers.postgres.statement_text import as_milliseconds
from onward.drivers.sql.enqueue import enqueue, is_plain
from onward.drivers.sql.rows import write_new_job
from onward.drivers.sql.statements import Statement
from onward.errors import BreakerOpen, DuplicateJob, OnwardError, OutcomeUnknown, StoreBusy, StoreError, StoreUnavailable, ValueRefused
from onward.jobs import Accepted, NewJob

Answer = list[Accepted] | Exception
UNKNOWN = datetime.max.replace(tzinfo=UTC)
"""Stands for an instant that only the server knows."""
GROUP_WAITS = 0.2
"""Seconds that several requests wait for a transaction that has stored the id of one of them: first together, then each by itself."""


def accept(database: Database, requests: Sequence[Sequence[NewJob]]) -> list[Answer]:
    """Store each request, or say what refused it; one refusal does not disturb the others."""
    if len(requests) == 1 and len(requests[0]) == 1 and _can_go_alone(requests[0][0]):
        return [_at_once(database, requests[0])]
    return _in_transaction(database, requests)


def _can_go_alone(job: NewJob) -> bool:
    """True where nothing is to be asked before, and no instant to be counted from one that only the server knows."""
    return is_plain(job) and not job.delay and (job.expires is None or job.at is not None)


def _at_once(database: Database, request: Sequence[NewJob]) -> Answer:
    """One round trip. What is not plain is found out by doing it again, as a transaction: the id makes sure that there is one job.

    So is a lost connection, as it is found whenever the server has been restarted since the last use.
    """
    (job,) = request
    now = database.now_text()
    asked = write_new_job(job, UNKNOWN, now) | {"now": now, "lock_timeout": as_milliseconds(database.timeout)}
    lost: OutcomeUnknown | None = None
    try:
        if database.alone(Statement("enqueue_alone", asked), ids=(job.id,), is_spare=False):
            return [Accepted(job.id)]
    except OutcomeUnknown as error:
        lost = error
    try:
        (answer,) = _in_transaction(database, [request])
        return answer
    except (StoreBusy, StoreUnavailable) as error:
        if lost is None:
            raise
        raise lost from error


def _in_transaction(database: Database, requests: Sequence[Sequence[NewJob]]) -> list[Answer]:
    try:
        return _together(database, requests)
    except StoreBusy:
        if len(requests) == 1:
            raise
        # One of them waits for somebody else's transaction, which has stored the same id. Those with keys come one by one.
        return [_alone(database, one) for one in requests]
    except (BreakerOpen, DuplicateJob, ValueRefused) as refusal:
        if len(requests) == 1:
            if isinstance(refusal, BreakerOpen | DuplicateJob):
                return [refusal]
            raise
    return database.transact(lambda connection, now: [_apart(database, connection, one, now) for one in requests], lambda: _ids(requests))


def _together(database: Database, requests: Sequence[Sequence[NewJob]]) -> list[Answer]:
    """All of them as one: a statement or two for any number of callers. Raises what refused one of them; nothing is stored then."""
    jobs = [job for request in requests for job in request]
    waits = None if len(requests) == 1 else GROUP_WAITS
    accepted = iter(database.write(lambda now: enqueue(jobs, now), lambda: _ids(requests), lock_timeout=waits))
    return [[next(accepted) for _ in request] for request in requests]


def _alone(database: Database, request: Sequence[NewJob]) -> Answer:
    try:
        return database.write(lambda now: enqueue(request, now), lambda: _ids([request]), lock_timeout=GROUP_WAITS)
    except StoreError as error:
        return error


def _apart(database: Database, connection: StoreConnection, request: Sequence[NewJob], now: datetime) -> Answer:
    database.run_on(connection, Statement("savepoint"))
    try:
        answer: Answer = database.drive_on(connection, enqueue(request, now))
    except (BreakerOpen, DuplicateJob, ValueRefused, psycopg.Error, UnicodeEncodeError) as error:
        refusal = error if isinstance(error, OnwardError) else database.explain(error)
        if not isinstance(refusal, BreakerOpen | DuplicateJob | ValueRefused):
            raise
        database.run_on(connection, Statement("undo_savepoint"))
        answer = refusal
    database.run_on(connection, Statement("release_savepoint"))
    return answer


def _ids(requests: Sequence[Sequence[NewJob]]) -> tuple[str, ...]:
    return tuple(job.id for request in requests for job in request)
