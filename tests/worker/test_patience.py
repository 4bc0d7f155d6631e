"""When nobody waits for a handler any more: a rule without a clock."""

from __future__ import annotations

import pytest

from onward.worker.patience import KILL_AFTER, End, Why, end_of_patience

LIMIT, CANCELLED = Why.LIMIT, Why.CANCELLED


@pytest.mark.parametrize(
    ("due_to_end_at", "cancelled_at", "is_apart", "end"),
    [
        (None, None, False, None),
        (None, None, True, None),
        (100.0, None, False, End(105.0, LIMIT)),
        (100.0, None, True, End(100.0 + KILL_AFTER, LIMIT)),
        # It could not know that somebody would ask, so its own process does not make it wait less.
        (None, 100.0, False, End(105.0, CANCELLED)),
        (None, 100.0, True, End(105.0, CANCELLED)),
        # What comes first counts.
        (100.0, 90.0, False, End(95.0, CANCELLED)),
        (100.0, 102.0, False, End(105.0, LIMIT)),
        (100.0, 99.0, True, End(101.0, LIMIT)),
        (100.0, 100.0, False, End(105.0, CANCELLED)),
    ],
)
def test_a_handler_gets_the_grace_from_its_limit_or_from_being_told(
    due_to_end_at: float | None, cancelled_at: float | None, is_apart: bool, end: End | None
) -> None:
    assert end_of_patience(due_to_end_at=due_to_end_at, cancelled_at=cancelled_at, is_apart=is_apart, grace=5.0) == end


def test_a_short_grace_is_kept_by_what_can_be_killed_too() -> None:
    """Whoever sets it below a second means it."""
    assert end_of_patience(due_to_end_at=100.0, cancelled_at=None, is_apart=True, grace=0.5) == End(100.5, LIMIT)
