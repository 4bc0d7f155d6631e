"""Breakers: what may be said, and the rules by which one opens, tries and closes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward.breaker import Breaker, BreakerPolicy, BreakerState, after_run, ask, closed, opened_by_hand, released
from onward.errors import InvalidDefinition
from onward.rate import Rate, parse_rate

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
POLICY = BreakerPolicy(threshold=3, pause=30 * MINUTE, pace=Rate(10, timedelta(seconds=1)))
JOB, PROBE = ("job", 1), ("probe", 4)
CLOSED = BreakerState(key="s3")
OPEN = BreakerState(key="s3", status="open", failures=3, opened_at=NOW, retry_at=NOW + 30 * MINUTE, pause=POLICY.pause, pace=POLICY.pace)
HALF_OPEN = BreakerState(
    key="s3", status="half_open", failures=3, opened_at=NOW, probe_id="probe", probe_fence=4, pause=POLICY.pause, pace=POLICY.pace
)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"key": None}, "key of a breaker is text"),
        ({"threshold": 0}, "threshold= of a breaker is a whole number"),
        ({"threshold": True}, "threshold= of a breaker is a whole number"),
        ({"threshold": 2.5}, "threshold= of a breaker is a whole number"),
        ({"pause": "0s"}, "pause= of a breaker: '0s' is too short: a breaker stays open for 1ms or longer"),
        ({"pause": "0.4ms"}, "pause= of a breaker: '0.4ms' is too short"),
        ({"pace": "1/0.5ms"}, "pace= is a rate such as .* in whole milliseconds or longer"),
        ({"pause": "soon"}, "pause= of a breaker: 'soon' is not a duration"),
        ({"pace": "slowly"}, "pace= is a rate such as"),
        ({"counts": None}, "counts= of a breaker names kinds of failures, such as .*, not None"),
        ({"counts": ()}, "counts= of a breaker names at least one"),
        ({"counts": ("transiant",)}, "'transiant' is no kind of failure: did you mean 'transient'"),
        ({"when_open": "raise"}, "when_open= of a breaker is 'wait' or 'refuse'"),
    ],
)
def test_a_breaker_that_makes_no_sense_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidDefinition, match=why):
        Breaker(**{"key": "s3"} | given)


def test_it_opens_at_the_threshold_and_a_success_begins_the_count_anew() -> None:
    state = CLOSED
    for ending, failures in (("failure", 1), ("failure", 2), ("other", 2), ("success", 0), ("failure", 1), ("failure", 2)):
        state = after_run(state, JOB, ending, POLICY, NOW)  # type: ignore[arg-type]
        assert (state.status, state.failures) == ("closed", failures)
    assert after_run(state, JOB, "failure", POLICY, NOW) == OPEN


def test_a_success_of_a_closed_breaker_without_failures_changes_nothing() -> None:
    assert after_run(CLOSED, JOB, "success", POLICY, NOW) is CLOSED


@pytest.mark.parametrize("ending", ["success", "failure", "other"])
@pytest.mark.parametrize("state", [OPEN, HALF_OPEN], ids=["open", "half-open"])
@pytest.mark.parametrize("claim", [JOB, ("probe", 3), ("job", 4)], ids=["another", "an earlier claim", "another with its fence"])
def test_only_the_probe_is_listened_to_while_it_is_not_closed(state: BreakerState, ending: Any, claim: tuple[str, int]) -> None:
    assert after_run(state, claim, ending, POLICY, NOW + MINUTE) is state


def test_the_probe_closes_it_opens_it_again_or_leaves_it_to_the_next() -> None:
    later = NOW + 31 * MINUTE
    success = after_run(HALF_OPEN, PROBE, "success", POLICY, later)
    assert success == BreakerState(key="s3", retry_at=later, pause=POLICY.pause, pace=POLICY.pace)
    failure = after_run(HALF_OPEN, PROBE, "failure", POLICY, later)
    assert (failure.status, failure.failures, failure.opened_at) == ("open", 4, NOW)
    assert (failure.retry_at, failure.probe_id, failure.probe_fence) == (later + POLICY.pause, None, None)
    other = after_run(HALF_OPEN, PROBE, "other", POLICY, later)
    assert (other.status, other.failures, other.retry_at, other.probe_id) == ("open", 3, later, None)


@pytest.mark.parametrize(
    ("state", "is_alive", "now", "is_let", "is_probe"),
    [
        (CLOSED, False, NOW, True, False),
        (OPEN, False, NOW, False, False),
        (OPEN, False, NOW + 30 * MINUTE - timedelta(microseconds=1), False, False),
        (OPEN, False, NOW + 30 * MINUTE, True, True),
        (OPEN, False, NOW - MINUTE, False, False),  # whoever asks was kept waiting since then
        (OPEN, False, NOW - MINUTE - timedelta(microseconds=1), True, True),  # the clock went back
        (HALF_OPEN, True, NOW + 99 * MINUTE, False, False),
        (HALF_OPEN, False, NOW, True, True),
    ],
)
def test_who_is_let_through(state: BreakerState, is_alive: bool, now: datetime, is_let: bool, is_probe: bool) -> None:
    answer = ask(state, ("next", 2), is_alive, now)
    assert answer.is_let is is_let
    if is_probe:
        assert (answer.state.status, answer.state.probe_id, answer.state.probe_fence) == ("half_open", "next", 2)
        assert (answer.state.opened_at, answer.state.retry_at) == (NOW, None)
    else:
        assert answer.state is state


def test_a_person_opens_and_closes_it() -> None:
    opened = opened_by_hand(CLOSED, 5 * MINUTE, NOW)
    assert (opened.status, opened.opened_at, opened.retry_at) == ("open", NOW, NOW + 5 * MINUTE)
    longer = opened_by_hand(HALF_OPEN, 60 * MINUTE, NOW + MINUTE)
    assert (longer.opened_at, longer.retry_at, longer.probe_id) == (NOW, NOW + 61 * MINUTE, None)
    assert closed(longer, None, NOW + 2 * MINUTE).pace == POLICY.pace


@pytest.mark.parametrize(
    ("pace", "portion", "pause"),
    [("100/s", 100, 1.0), ("50/2s", 25, 1.0), ("10/m", 1, 6.0), ("1/h", 1, 3600.0), ("100000/s", 1000, 0.01)],
)
def test_what_waited_goes_on_at_the_pace_until_nothing_is_left(pace: str, portion: int, pause: float) -> None:
    """In portions of a second where there are several in one, and of no more than one transaction can bear."""
    state = closed(OPEN, parse_rate("pace", pace), NOW)
    assert state.portion == portion
    assert released(state, True, NOW).retry_at == NOW + timedelta(seconds=pause)
    assert released(state, False, NOW).retry_at is None
