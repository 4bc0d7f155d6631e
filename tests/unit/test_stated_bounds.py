"""Every bound once more, in figures: other tests count from the constants and would not notice another value."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward import error_text, jobs, outcome, payload, reasons, turn, unique
from onward.status import Status, Verb

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
    "TYPES_BLOCKED_PER_TURN": (turn.TYPES_BLOCKED_PER_TURN, 1000),
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
