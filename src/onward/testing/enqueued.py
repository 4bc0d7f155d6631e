"""What waits in an application's store, and assertions about it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from onward.app import Onward
from onward.definition import JobDefinition
from onward.durations import parse_duration
from onward.errors import InvalidDefinition, InvalidPayload
from onward.inspection import JobFilter
from onward.jobs import Job
from onward.status import CLAIMABLE

MOST = 1_000_000
_ANY: Any = object()


def enqueued_jobs(app: Onward, definition: JobDefinition[Any] | None = None) -> list[Job]:
    """Jobs that wait and are due, in the order in which they would run; only those of ``definition``, if it is given."""
    return [job for job in _waiting(app, definition) if job.scheduled_at <= app.store.clock.now()]


def scheduled_jobs(app: Onward, definition: JobDefinition[Any] | None = None) -> list[Job]:
    """Jobs that wait for a later moment, the next one first; retries that wait out their back-off are among them."""
    later = [job for job in _waiting(app, definition) if job.scheduled_at > app.store.clock.now()]
    return sorted(later, key=lambda job: (job.scheduled_at, job.id))


def assert_enqueued(app: Onward, definition: JobDefinition[Any], payload: Any = _ANY, **fields: Any) -> Job:
    """Assert that such a job waits, due or later, and give the first one.

    ``payload`` is compared with the decoded payload. ``fields`` are those of ``Job``, and also ``key`` and ``delay`` (from the enqueue to
    the moment it is due, as any duration is written). The failure lists what does wait. Raises ``InvalidPayload`` for a payload
    that such a job could never have, and ``InvalidDefinition`` for a field that no job has.
    """
    fields = _read(definition, payload, fields)
    waiting = _waiting(app, definition)
    for job in waiting:
        if _is_like(definition, job, payload, fields):
            return job
    raise AssertionError(f"{_wanted(definition, payload, fields)} is not enqueued; {_listed(definition, waiting)}")


def refute_enqueued(app: Onward, definition: JobDefinition[Any], payload: Any = _ANY, **fields: Any) -> None:
    """Assert that no such job waits, neither due nor later. Arguments and errors are those of ``assert_enqueued``."""
    fields = _read(definition, payload, fields)
    found = [job for job in _waiting(app, definition) if _is_like(definition, job, payload, fields)]
    if found:
        raise AssertionError(f"{_wanted(definition, payload, fields)} should not be enqueued; {_listed(definition, found)}")


def _waiting(app: Onward, definition: JobDefinition[Any] | None) -> list[Job]:
    types = () if definition is None else (definition.name, *definition.aliases)
    jobs = app.store.find(JobFilter(statuses=tuple(sorted(CLAIMABLE)), types=types), limit=MOST)
    return sorted(jobs, key=lambda job: (-job.priority, job.scheduled_at, job.id))


def _read(definition: JobDefinition[Any], payload: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Refuse what could match no job at all: a negated assertion would pass for it, whatever was enqueued."""
    if payload is not _ANY:
        definition.codec.encode(payload)
    unknown = [name for name in fields if name not in {*Job.__struct_fields__, "key", "delay"}]
    if unknown:
        raise InvalidDefinition(f"a job has no field {unknown[0]!r}: fields are those of onward.Job, key and delay")
    return {name: parse_duration(value) if name == "delay" else value for name, value in fields.items()}


def _is_like(definition: JobDefinition[Any], job: Job, payload: Any, fields: dict[str, Any]) -> bool:
    if payload is not _ANY and _payload(definition, job) != payload:
        return False
    return all(_field(job, name) == wanted for name, wanted in fields.items())


def _field(job: Job, name: str) -> Any:
    if name == "key":
        return job.idempotency_key
    if name == "delay":
        return job.scheduled_at - job.created_at
    return getattr(job, name)


def _payload(definition: JobDefinition[Any], job: Job) -> Any:
    try:
        return definition.codec.decode(job.payload)
    except InvalidPayload:
        return _ANY


def _wanted(definition: JobDefinition[Any], payload: Any, fields: dict[str, Any]) -> str:
    secrets = definition.codec.secrets
    said = [] if payload is _ANY else [secrets.hiding(definition.codec.encode(payload))(repr(payload))]
    parts = said + [f"{name}={value!r}" for name, value in fields.items()]
    return f"{definition.name}({', '.join(parts)})"


def _listed(definition: JobDefinition[Any], jobs: Iterable[Job]) -> str:
    lines = [_line(job, definition.codec.secrets.hiding(job.payload)(job.payload)) for job in jobs]
    return "\n  ".join([f"of {definition.name} {len(lines)} wait:" if lines else f"of {definition.name} nothing waits", *lines])


def _line(job: Job, payload: str) -> str:
    delay = job.scheduled_at - job.created_at
    more = f" delay={delay}" if delay > timedelta(0) else ""
    key = f" key={job.idempotency_key!r}" if job.idempotency_key else ""
    return f"{job.id} {job.status} {payload:.200} queue={job.queue!r} priority={job.priority}{key}{more}"
