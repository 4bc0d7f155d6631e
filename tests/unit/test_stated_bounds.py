"""Every bound once more, in figures: other tests count from the constants and would not notice another value."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward import error_text, inspection, jobs, json_text, outcome, payload, reasons, redact, rollups, steps, turn, unique
from onward.definition import define_job
from onward.events import Event
from onward.retry import RetryPolicy
from onward.status import Status, Verb
from tests.unit.making import NOW, make_job

KIBIBYTE = 1024


STATED: dict[str, tuple[object, object]] = {
    "MOST_RELEASES": (outcome.MOST_RELEASES, 20),
    "MOST_LOSSES": (outcome.MOST_LOSSES, 20),
    "MOST_SNOOZES": (outcome.MOST_SNOOZES, 1000),
    "HIGHEST_COUNT": (jobs.HIGHEST_COUNT, 9_007_199_254_740_992),
    "LONGEST_LEASE": (jobs.LONGEST_LEASE, timedelta(hours=24)),
    "LONGEST_KEY": (unique.LONGEST_KEY, 255),
    "PAYLOAD_LIMIT": (payload.PAYLOAD_LIMIT, 256 * KIBIBYTE),
    "RESULT_LIMIT": (payload.RESULT_LIMIT, 256 * KIBIBYTE),
    "METADATA_LIMIT": (payload.METADATA_LIMIT, 16 * KIBIBYTE),
    "PROGRESS_LIMIT": (payload.PROGRESS_LIMIT, 4 * KIBIBYTE),
    "LONGEST_ERROR": (error_text.LONGEST_ERROR, 8 * KIBIBYTE),
    "LONGEST_MESSAGE": (error_text.LONGEST_MESSAGE, 2 * KIBIBYTE),
    "MOST_ERRORS": (error_text.MOST_ERRORS, 12),
    "MOST_FRAMES": (error_text.MOST_FRAMES, 16),
    "LONGEST_REASON": (reasons.LONGEST_REASON, 300),
    "BLOCKED_PER_TURN": (turn.BLOCKED_PER_TURN, 1000),
    "LOWEST_PRIORITY": (jobs.LOWEST_PRIORITY, -100),
    "HIGHEST_PRIORITY": (jobs.HIGHEST_PRIORITY, 100),
    "DEEPEST": (json_text.DEEPEST, 64),
    "MOST_DIGITS": (json_text.MOST_DIGITS, 300),
    "LONGEST_INPUT": (redact.LONGEST_INPUT, 64 * KIBIBYTE),
    "LONGEST_SECRET": (redact.LONGEST_SECRET, 4 * KIBIBYTE),
    "STUCK_AFTER": (inspection.STUCK_AFTER, timedelta(minutes=5)),
    "MERGED_AFTER": (rollups.MERGED_AFTER, timedelta(minutes=5)),
    "MERGED_WITHIN": (rollups.MERGED_WITHIN, timedelta(days=2)),
    "GROWTH": (rollups.GROWTH, 1.1),
    "UNDO_WITHIN": (steps.UNDO_WITHIN, 5.0),
}


@pytest.mark.parametrize("name", STATED)
def test_a_bound_is_the_one_that_is_stated(name: str) -> None:
    bound, stated = STATED[name]
    assert bound == stated


def test_the_words_are_those_in_every_database_that_there_is() -> None:
    """Another spelling would not find the rows of yesterday."""
    assert [status.value for status in Status] == ["queued", "in_progress", "retrying", "completed", "dead_letter", "cancelled"]
    assert (outcome.EXPIRED, outcome.STOPPED) == ("expired", "cancelled while it ran")
    assert {verb.value for verb in Verb} == {
        *("claim", "complete", "retry", "dead-letter", "release", "snooze", "lose", "cancel", "run now", "retry by a person"),
    }


def test_the_questions_are_those_that_the_command_line_and_the_page_offer() -> None:
    """A script asks by the name."""
    assert inspection.QUESTIONS == ("outstanding", "failed", "stuck", "durations", "duplicates", "last-hour")


def test_the_names_of_the_endings_are_those_in_every_history_that_there_is() -> None:
    """They are stored, counted by and asked for."""
    endings = (outcome.Completed, outcome.Retried, outcome.Snoozed, outcome.Released, outcome.Cancelled, outcome.DeadLettered)
    assert [ending.name for ending in endings] == ["completed", "retried", "snoozed", "released", "cancelled", "dead_lettered"]


JOB = make_job()
CLAIM = turn.Claim(JOB, timedelta(minutes=1))
NEVER_CLAIMED = jobs.Job(
    **{name: getattr(JOB, name) for name in ("id", "type", "queue", "priority", "status", "payload", "payload_hash", "max_attempts")},
    scheduled_at=NOW,
    created_at=NOW,
    updated_at=NOW,
)
DEFAULTS: dict[str, tuple[object, dict[str, Any]]] = {
    "definition": (
        define_job("a", lambda: None),
        {
            "queue": "default",
            "priority": 0,
            "lease": timedelta(minutes=1),
            "timeout": None,
            "expires": None,
            "key": None,
            "scope": "active",
            "on_duplicate": "return",
            "isolated": False,
            "keeps_history": False,
            "aliases": (),
        },
    ),
    "policy": (
        RetryPolicy(),
        {
            "max_attempts": 3,
            "backoff": "exponential",
            "base": timedelta(seconds=30),
            "factor": 2.0,
            "jitter": 0.15,
            "jitter_up_to": timedelta(0),
            "cap": timedelta(hours=1),
            "on_unknown": "retry",
        },
    ),
    "request": (
        jobs.NewJob(id="1", type="a", payload="null", payload_hash="h"),
        {
            "queue": "default",
            "priority": 0,
            "delay": timedelta(0),
            "at": None,
            "expires": None,
            "max_attempts": 3,
            "isolated": False,
            "key": None,
            "scope": "active",
            "on_duplicate": "return",
            "owner": "",
            "metadata": "{}",
        },
    ),
    "job": (
        NEVER_CLAIMED,
        {
            "attempts": 0,
            "fence": 0,
            "lost_leases": 0,
            "releases": 0,
            "snoozes": 0,
            "isolated": False,
            "ran_isolated": False,
            "lease_owner": None,
            "blocked_by": None,
            "owner": "",
            "metadata": "{}",
            "error": None,
            "finished_at": None,
        },
    ),
    "answer": (jobs.Accepted("1"), {"is_new": True, "payload_differs": False}),
    "attempt": (
        jobs.Attempt(job_id="1", fence=1, attempt=1, lease_owner=None, outcome="completed", finished_at=NOW),
        {"error": None, "processed": 0, "failed": 0, "started_at": None},
    ),
    "event": (
        Event(event="queued", job_id="1", job_type="a"),
        {"queue": "", "worker_id": None, "attempts": 0, "priority": 0, "duration_ms": None, "error": None, "committed": True},
    ),
    "retried": (outcome.Retried(timedelta(0), "it failed"), {"isolated": False}),
    "settlement": (
        turn.Settlement(claim=CLAIM, outcome=outcome.Completed()),
        {"children": (), "progress": None, "processed": 0, "failed": 0, "seconds": None, "keeps_history": False},
    ),
    "demand": (turn.Demand(lease_owner="w", slots=1, types={}), {"queues": (), "unblocks": False}),
    "turn": (
        turn.Turn(),
        {"settled": (), "lost": (), "held_up": (), "claims": (), "expired": (), "next_due": None, "blocked": 0, "leaves_blocked": False},
    ),
    "extension": (turn.Extension(CLAIM), {"progress": None, "began_isolated": False}),
    "sweep": (turn.Swept(), {"requeued": (), "dead_lettered": (), "expired": (), "unblocked": 0, "suspected": 0}),
}


@pytest.mark.parametrize("what", DEFAULTS)
def test_what_nobody_has_said_is_as_it_is_stated(what: str) -> None:
    """A driver of somebody else's leaves out what it has nothing to say of, and so does every application."""
    made, stated = DEFAULTS[what]
    assert {name: getattr(made, name) for name in stated} == stated
