"""What the supervisor decides without starting anything."""

from __future__ import annotations

import pytest

from onward.worker.supervisor import LONGEST_BACK_OFF, back_off


@pytest.mark.parametrize(
    ("failures", "was_ready", "seconds"),
    [
        (1, True, 0.0),
        (2, True, 1.0),
        (3, True, 2.0),
        (6, True, 16.0),
        (7, True, LONGEST_BACK_OFF),
        (10_000, True, LONGEST_BACK_OFF),
        (1, False, 1.0),
        (2, False, 2.0),
        (10_000, False, LONGEST_BACK_OFF),
    ],
)
def test_a_dead_process_is_replaced_at_once_and_a_hopeless_one_ever_later(failures: int, was_ready: bool, seconds: float) -> None:
    """The job of a killed worker must not wait; one that dies at each start must not burn the machine."""
    assert back_off(failures, was_ready=was_ready) == seconds
