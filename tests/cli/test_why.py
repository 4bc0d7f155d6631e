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
        ({"status": Status.COMPLETED}, "is done"),
    ],
)
def test_every_state_has_its_reason(fields: dict[str, Any], expected: str) -> None:
    """Why a job does not run is the first question of everyone who ever had a queue."""
    assert expected in explain(make_job(**fields), NOW)


@pytest.mark.parametrize("status", list(Status))
def test_no_state_is_without_a_sentence(status: Status) -> None:
    """A new status must not fall through."""
    assert explain(make_job(status=status), NOW).endswith(".")
