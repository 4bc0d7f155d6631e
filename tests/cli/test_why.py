"""The sentence that says why a job is not running."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward.cli.why import explain
from onward.jobs import Job
from onward.status import Status

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER, EARLIER = NOW + timedelta(minutes=5), NOW - timedelta(minutes=5)


def make_job(**fields: Any) -> Job:
    """A job in any state."""
    defaults: dict[str, Any] = {
        "id": "01JE0000000000000000000000",
        "type": "mail",
        "queue": "post",
        "priority": 0,
        "status": Status.QUEUED,
        "payload": "null",
        "payload_hash": "",
        "scheduled_at": EARLIER,
        "max_attempts": 3,
        "created_at": EARLIER,
        "updated_at": EARLIER,
    }
    return Job(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "been due for 5m (since 2026-03-01 11:55:00Z): no worker that serves queue 'post'"),
        ({"scheduled_at": LATER}, "is due in 5m (2026-03-01 12:05:00Z)"),
        ({"scheduled_at": LATER, "status": Status.RETRYING}, "after its last failure, in 5m"),
        ({"expires_at": EARLIER}, "expired 5m ago"),
        ({"blocked_by": "type"}, "knew the type 'mail'"),
        ({"paused_at": EARLIER}, "queue 'post' is paused since 2026-03-01 11:55:00Z (5m ago): 'onward queues resume post' lets it start."),
        ({"paused_at": EARLIER, "scheduled_at": LATER}, "is due in 5m"),
        ({"blocked_by": "breaker", "breaker": "stripe"}, "the breaker 'stripe' is open"),
        ({"blocked_by": "limit", "concurrency_key": "c"}, "concurrency key 'c'"),
        ({"blocked_by": "serial", "serial_key": "s"}, "serial key 's'"),
        (
            {"status": Status.IN_PROGRESS, "lease_owner": "h:1:x", "lease_until": LATER},
            "h:1:x holds the lease until 2026-03-01 12:05:00Z (in 5m)",
        ),
        (
            {"status": Status.IN_PROGRESS, "lease_owner": "h", "lease_until": LATER, "cancel_requested_at": EARLIER},
            "asked to stop 5m ago",
        ),
        ({"status": Status.IN_PROGRESS, "lease_owner": "h:1:x", "lease_until": EARLIER}, "The lease of h:1:x ran out 5m ago"),
        ({"status": Status.DEAD_LETTER}, "'onward jobs retry 01JE0000000000000000000000'"),
        ({"status": Status.CANCELLED}, "was cancelled"),
        ({"status": Status.CANCELLED, "error": "expired"}, "was not run before it expired"),
        ({"status": Status.COMPLETED}, "is done"),
        ({"status": Status.COMPLETED, "key_held_by": "01JE0000000000000000000009"}, "is done"),
        (
            {"status": Status.DEAD_LETTER, "idempotency_key": "k", "key_held_by": "01JE0000000000000000000009"},
            "a retry is refused while job 01JE0000000000000000000009 holds its key 'k': 'onward jobs show 01JE0000000000000000000009'",
        ),
        ({"status": Status.CANCELLED, "idempotency_key": "k", "key_held_by": "01JE0000000000000000000009"}, "a retry is refused while"),
        ({"status": Status.DEAD_LETTER, "key_held_by": "01JE0000000000000000000000"}, "'onward jobs retry 01JE0000000000000000000000'"),
    ],
)
def test_every_state_has_its_reason(fields: dict[str, Any], expected: str) -> None:
    """Why a job does not run is the first question of everyone who ever had a queue."""
    beside = {name: fields.get(name) for name in ("paused_at", "key_held_by")}
    job = make_job(**{name: value for name, value in fields.items() if name not in beside})
    assert expected in explain(job, NOW, **beside)


@pytest.mark.parametrize("status", list(Status))
def test_no_state_is_without_a_sentence(status: Status) -> None:
    """A new status must not fall through."""
    assert explain(make_job(status=status), NOW).endswith(".")
