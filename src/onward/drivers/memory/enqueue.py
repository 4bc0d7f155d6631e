"""Enqueue: which job stands for each request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from onward.alerts import breaker_cause
from onward.breaker import refuses
from onward.drivers.memory.alerts import alert_of
from onward.drivers.memory.tables import KeyHolder, Tables
from onward.drivers.memory.waits import is_probe_alive
from onward.errors import BreakerOpen, DuplicateJob
from onward.jobs import Accepted, Job, NewJob, uses_of_key
from onward.status import Status
from onward.unique import answer_duplicate, answer_same_id, key_lasts


def enqueue_each(tables: Tables, requests: Sequence[Sequence[NewJob]], now: datetime) -> list[list[Accepted] | Exception]:
    """Accept independent requests, each whole or not at all."""
    answers: list[list[Accepted] | Exception] = []
    for request in requests:
        try:
            answers.append(enqueue(tables, request, now))
        except (BreakerOpen, DuplicateJob) as refused:
            answers.append(refused)
    return answers


def enqueue(tables: Tables, request: Sequence[NewJob], now: datetime) -> list[Accepted]:
    """Accept these jobs, all or none. Raises ``BreakerOpen``, ``DuplicateJob`` or ``KeyReused``."""
    with tables.all_or_nothing():
        return [_accept_one(tables, asked, now) for asked in request]


def _accept_one(tables: Tables, asked: NewJob, now: datetime) -> Accepted:
    stored = tables.jobs.get(asked.id)
    if stored is not None:
        return answer_same_id(asked, stored.type, stored.payload_hash, stored.owner)
    if asked.key is not None:
        name = uses_of_key(asked)
        holder = tables.keys.get(name)
        if holder is not None and holder.holds_at(now) and holder.job_id == asked.id:  # its row is gone
            return answer_same_id(asked, asked.type, holder.payload_hash, asked.owner)
        if holder is not None and holder.holds_at(now):
            return answer_duplicate(asked, holder.job_id, holder.payload_hash)
        window = key_lasts(asked.scope)
        tables.put_key(name, KeyHolder(asked.id, asked.payload_hash, asked.scope, None if window is None else now + window))
        tables.put_scope(asked.id, asked.scope)
    state = tables.breakers.get(asked.breaker or "") if asked.refuses_open_breaker else None
    if state is not None and refuses(state, is_probe_alive(tables, state), now):
        alert = alert_of(tables, breaker_cause(state.key))
        raise BreakerOpen(state.key, retry_at=state.retry_at, alert_id=None if alert is None else alert.id)
    tables.put_job(_as_stored(asked, now))
    return Accepted(asked.id)


def _as_stored(asked: NewJob, now: datetime) -> Job:
    due = now + asked.delay if asked.at is None else asked.at.astimezone(UTC)
    return Job(
        id=asked.id,
        type=asked.type,
        queue=asked.queue,
        priority=asked.priority,
        status=Status.QUEUED,
        payload=asked.payload,
        payload_hash=asked.payload_hash,
        scheduled_at=due,
        expires_at=None if asked.expires is None else due + asked.expires,
        max_attempts=asked.max_attempts,
        isolated=asked.isolated,
        idempotency_key=asked.key,
        concurrency_key=asked.concurrency_key,
        serial_key=asked.serial_key,
        breaker=asked.breaker,
        owner=asked.owner,
        metadata=asked.metadata,
        created_at=now,
        updated_at=now,
    )
