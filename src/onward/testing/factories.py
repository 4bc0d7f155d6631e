"""Jobs made by hand, in any status, for tests that need one and have no store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onward.ids import new_id
from onward.jobs import Job, NewJob
from onward.payload import payload_hash
from onward.status import Status

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a ``FakeClock`` begins."""


def make_job(status: Status | str = Status.QUEUED, *, payload: Any = None, **fields: Any) -> Job:
    """Make a ``Job`` as a store would give it: the fields that its status implies are filled in, any field can be given.

    ``payload`` is any JSON value. A running job has a claim, a final one an end; one that was tried has attempts and a fence.
    """
    status = Status(status)
    text = fields.pop("payload_text", None) or msgspec.json.encode(payload, order="deterministic").decode()
    created_at: datetime = fields.pop("created_at", START)
    attempts = fields.pop("attempts", 0 if status is Status.QUEUED else 1)
    filled: dict[str, Any] = {
        "id": new_id(),
        "type": "work",
        "queue": "default",
        "priority": 0,
        "status": status,
        "payload": text,
        "payload_hash": payload_hash(text),
        "scheduled_at": created_at,
        "attempts": attempts,
        "fence": attempts,
        "max_attempts": 3,
        "created_at": created_at,
        "updated_at": created_at,
        "started_at": created_at if attempts else None,
    }
    if status is Status.IN_PROGRESS:
        filled |= {"lease_owner": "test:1:factory", "lease_until": created_at + timedelta(seconds=60)}
    if status.is_final:
        filled["finished_at"] = created_at
    if status in (Status.RETRYING, Status.DEAD_LETTER, Status.CANCELLED):
        filled["error"] = "made by a test"
    return Job(**(filled | fields))


def make_new_job(type: str = "work", payload: Any = None, **fields: Any) -> NewJob:
    """Make what an enqueue asks for, without a definition. ``payload`` is any JSON value, the fields are those of ``NewJob``."""
    text = msgspec.json.encode(payload, order="deterministic").decode()
    asked: dict[str, Any] = {"id": new_id(), "type": type, "payload": text, "payload_hash": payload_hash(text)}
    return NewJob(**(asked | fields))
