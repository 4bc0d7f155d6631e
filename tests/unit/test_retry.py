from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import InvalidDefinition, InvalidPayload, PermanentJobError, TransientJobError
from onward.retry import RetryPolicy

HOUR = timedelta(hours=1)


class Highest(Random):
    """Always draws the top of the window."""

    def random(self) -> float:
        return 1.0


class Lowest(Random):
    """Always draws the bottom of the window."""

    def random(self) -> float:
        return 0.0


def window(policy: RetryPolicy, failed: int) -> tuple[float, float]:
    """The shortest and the longest wait after this many failures, in seconds."""
    return policy.delay(failed, Lowest()).total_seconds(), policy.delay(failed, Highest()).total_seconds()


def around(seconds: float, share: float) -> tuple[Any, Any]:
    return pytest.approx(seconds * (1 - share), abs=1e-5), pytest.approx(seconds * (1 + share), abs=1e-5)


@pytest.mark.parametrize(("failed", "seconds"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 960), (7, 1920)])
def test_the_default_doubles_from_30_seconds_with_15_percent_of_jitter(failed: int, seconds: int) -> None:
    """What a job gets that asks for nothing; also the serverless document's."""
    assert window(RetryPolicy(), failed) == around(seconds, 0.15)


def test_the_default_is_three_tries_and_an_hour_at_most() -> None:
    """At the cap jitter only shortens."""
    policy = RetryPolicy()
    assert policy.max_attempts == 3
    assert window(policy, 8) == (pytest.approx(3600 * 0.85), 3600)


@pytest.mark.parametrize(("failed", "minutes"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16)])
def test_the_podcasts_policy_doubles_from_a_minute_with_10_percent_up_to_30_minutes(failed: int, minutes: int) -> None:
    """One, two, four, eight, sixteen minutes; never over thirty."""
    policy = RetryPolicy(6, base="1m", jitter=0.1, cap="30m")
    assert window(policy, failed) == around(minutes * 60, 0.1)
    assert window(policy, 6) == (pytest.approx(1800 * 0.9), 1800)


@pytest.mark.parametrize(("failed", "seconds"), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32)])
def test_the_context_policy_is_two_to_the_n_plus_up_to_a_second(failed: int, seconds: int) -> None:
    """Jitter as a duration, upwards only."""
    policy = RetryPolicy(5, base="2s", jitter=0, jitter_up_to="1s", cap="60s")
    assert window(policy, failed) == (seconds, seconds + 1)
    assert window(policy, 6) == (59, 60)


def test_the_files_policy_runs_again_at_the_next_poll() -> None:
    """No wait at all is a policy too."""
    policy = RetryPolicy(backoff="fixed", base=0, jitter=0)
    assert [window(policy, failed) for failed in (1, 2, 100)] == [(0, 0)] * 3


def test_linear_and_fixed_waits() -> None:
    """The other two shapes."""
    assert [window(RetryPolicy(backoff="linear", base="10s", jitter=0), n)[0] for n in (1, 2, 3, 1000)] == [10, 20, 30, 3600]
    assert [window(RetryPolicy(backoff="fixed", base="10s", jitter=0), n)[0] for n in (1, 2, 3, 1000)] == [10, 10, 10, 10]


@pytest.mark.parametrize("failed", [-1, 0, 1, 46, 47, 64, 1023, 1024, 1025, 10**6, 10**9])
@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
@pytest.mark.parametrize("factor", [1, 2, 10.5, 1000])
@pytest.mark.parametrize("base", ["0s", "1ms", "30s", "36500d"])
def test_no_number_of_failures_overflows(failed: int, backoff: Any, factor: float, base: str) -> None:
    """Elsewhere the wait turned negative at the 47th try, or raised at the 1024th, and the job ran in a tight loop."""
    delay = RetryPolicy(backoff=backoff, factor=factor, base=base, jitter=1, jitter_up_to="1d").delay(failed, Random(failed))
    assert timedelta(0) <= delay <= HOUR


@given(
    st.integers(1, 10**6),
    st.floats(1, 1000),
    st.floats(0, 1),
    st.timedeltas(timedelta(0), timedelta(days=1)),
    st.timedeltas(timedelta(0), timedelta(days=1)),
    st.timedeltas(timedelta(0), timedelta(days=1)),
    st.randoms(use_true_random=False),
)
def test_the_cap_holds_after_jitter(
    failed: int, factor: float, jitter: float, base: timedelta, up_to: timedelta, cap: timedelta, chance: Random
) -> None:
    """Never negative, never over the cap, whatever the policy."""
    policy = RetryPolicy(factor=factor, jitter=jitter, base=base, jitter_up_to=up_to, cap=cap)
    assert timedelta(0) <= policy.delay(failed, chance) <= cap


def test_draws_do_not_pile_up_on_the_cap() -> None:
    """A thousand jobs that failed together must not come back together."""
    chance = Random(1)
    for policy in (RetryPolicy(cap="1m"), RetryPolicy(jitter=0, jitter_up_to="10s", cap="1m")):
        drawn = [policy.delay(20, chance) for _ in range(1000)]
        assert len(set(drawn)) > 990
        assert drawn.count(timedelta(minutes=1)) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"max_attempts": 1_000_001},
        {"backoff": "random"},
        {"base": "soon"},
        {"base": -1},
        {"cap": "x"},
        {"jitter_up_to": "-1s"},
        {"factor": 0.5},
        {"factor": 1001},
        {"factor": float("nan")},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"on_unknown": "explode"},
        {"permanent": [ValueError]},
        {"transient": ("ValueError",)},
        {"permanent": 3},
        {"transient": (int,)},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    """At import, not at the first failure in the night."""
    with pytest.raises(
        InvalidDefinition, match=next(iter(wrong)) if next(iter(wrong)) not in ("base", "cap", "jitter_up_to") else "RetryPolicy"
    ):
        RetryPolicy(**wrong)


class Provider(Exception):
    """Somebody else's error."""


class ProviderDown(Provider):
    """A kind of it."""


@pytest.mark.parametrize(
    ("error", "judgement"),
    [
        (PermanentJobError("x"), "permanent"),
        (TransientJobError("x"), "transient"),
        (InvalidPayload("x"), "permanent"),
        (KeyError("x"), "permanent"),
        (ProviderDown(), "transient"),
        (Provider(), "unknown"),
        (RuntimeError(), "unknown"),
        (LookupError(), "unknown"),
    ],
    ids=lambda one: repr(one),
)
def test_the_raised_class_speaks_first_then_the_lists(error: BaseException, judgement: str) -> None:
    """Subclasses count as their class."""
    assert RetryPolicy(permanent=(KeyError,), transient=(ProviderDown,)).judge(error) == judgement


def test_permanent_wins_when_both_lists_name_an_error() -> None:
    """The safer reading: repeating a permanent error only repeats its harm."""
    assert RetryPolicy(permanent=(LookupError,), transient=(KeyError,)).judge(KeyError()) == "permanent"


def test_a_raised_class_beats_the_lists() -> None:
    """The handler knows the case, the policy only the kind."""
    assert RetryPolicy(permanent=(TransientJobError,)).judge(TransientJobError()) == "transient"
    assert RetryPolicy(transient=(PermanentJobError,)).judge(PermanentJobError()) == "permanent"


@pytest.mark.parametrize(("attempts", "most", "again"), [(1, 3, True), (2, 3, True), (3, 3, False), (4, 3, False), (1, 1, False)])
def test_tries_are_counted_against_the_job_s_own_limit(attempts: int, most: int, again: bool) -> None:
    """The limit was stored at enqueue, so a deploy does not change jobs that wait."""
    assert RetryPolicy(10).allows_another_try(RuntimeError(), attempts, most) is again


def test_unknown_errors_can_be_made_final() -> None:
    """``on_unknown="dead_letter"``: only what is listed as transient runs again."""
    policy = RetryPolicy(transient=(OSError,), on_unknown="dead_letter")
    assert not policy.allows_another_try(RuntimeError(), 1, 3)
    assert policy.allows_another_try(OSError(), 1, 3)
    assert policy.allows_another_try(TransientJobError(), 1, 3)
    assert not policy.allows_another_try(PermanentJobError(), 1, 3)


def test_one_exception_class_needs_no_brackets() -> None:
    """``except ValueError`` needs none either."""
    policy = RetryPolicy(permanent=ValueError, transient=OSError)
    assert (policy.permanent, policy.transient) == ((ValueError,), (OSError,))
    assert policy.judge(ValueError()) == "permanent"
