from datetime import UTC, datetime

import pytest

from onward.alerts import breaker_opened
from onward.breaker import BreakerState


@pytest.mark.parametrize(
    ("failures", "by_hand", "words"),
    [
        (1, False, "the breaker s3 opened after 1 failure in a row: its jobs wait"),
        (5, False, "the breaker s3 opened after 5 failures in a row: its jobs wait"),
        (1234, False, "the breaker s3 opened after 1,234 failures in a row: its jobs wait"),
        (0, True, "the breaker s3 was opened by hand: its jobs wait"),
    ],
)
def test_a_breaker_that_opens_says_how(failures: int, by_hand: bool, words: str) -> None:
    state = BreakerState(key="s3", status="open", failures=failures, retry_at=datetime(2026, 3, 1, tzinfo=UTC))
    assert breaker_opened(state, by_hand=by_hand).message == words
    assert (breaker_opened(state).message == words) == (not by_hand)
