"""Values for the unit tests, made with as little as each test has to say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from onward.jobs import Job, NewJob
from onward.status import Status

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_job(**fields: Any) -> Job:
    defaults: dict[str, Any] = {
        "id": "01HZX000000000000000000000",
        "type": "t",
        "queue": "default",
        "priority": 0,
        "status": Status.IN_PROGRESS,
        "payload": "null",
        "payload_hash": "h",
        "scheduled_at": NOW,
        "attempts": 1,
        "max_attempts": 3,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Job(**(defaults | fields))


def make_request(**fields: Any) -> NewJob:
    return NewJob(**({"id": "01HZX000000000000000000000", "type": "t", "payload": "null", "payload_hash": "h"} | fields))
