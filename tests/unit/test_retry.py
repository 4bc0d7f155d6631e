from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.durations import LONGEST
from onward.errors import InvalidDefinition, InvalidPayload, PermanentJobError, TransientJobError
from onward.retry import RetryPolicy, members_of
from onward.spelling import shown

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
def test_the_sync_policy_doubles_from_a_minute_with_10_percent_up_to_30_minutes(failed: int, minutes: int) -> None:
    """One, two, four, eight, sixteen minutes; never over thirty. Five retries are six tries."""
    policy = RetryPolicy(6, base="1m", jitter=0.1, cap="30m")
    assert policy.allows_another_try(RuntimeError(), 5, policy.max_attempts)
    assert not policy.allows_another_try(RuntimeError(), 6, policy.max_attempts)
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


@pytest.mark.parametrize("failed", [-1, 0, 1, 46, 47, 64, 1023, 1024, 1025, 10**6, 10**9, pytest.param(10**400, id="400 digits")])
@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
@pytest.mark.parametrize("factor", [1, 2, 10.5, 1000])
@pytest.mark.parametrize("base", ["0s", "1ms", "30s", "36500d"])
def test_no_number_of_failures_overflows(failed: int, backoff: Any, factor: float, base: str) -> None:
    """Elsewhere the wait turned negative at the 47th try, or raised at the 1024th, and the job ran in a tight loop."""
    delay = RetryPolicy(backoff=backoff, factor=factor, base=base, jitter=1, jitter_up_to="1d").delay(failed, Random(failed))
    assert timedelta(0) <= delay <= HOUR


@given(
    st.integers(1, 10**6) | st.sampled_from([46, 47, 64, 1023, 1024, 10**6]),
    st.sampled_from(["exponential", "linear", "fixed"]),
    st.floats(1, 1000) | st.integers(1, 1000),
    st.floats(0, 1),
    st.timedeltas(timedelta(0), LONGEST),
    st.timedeltas(timedelta(0), LONGEST),
    st.timedeltas(timedelta(0), LONGEST),
    st.randoms(use_true_random=False) | st.sampled_from([Lowest(), Highest()]),
)
def test_no_wait_is_over_the_cap_or_under_the_shortest_first_one(
    failed: int, backoff: Any, factor: float, jitter: float, base: timedelta, up_to: timedelta, cap: timedelta, chance: Random
) -> None:
    """Whatever the policy: a wait that jitter brings to nothing is a tight loop."""
    policy = RetryPolicy(backoff=backoff, factor=factor, jitter=jitter, base=base, jitter_up_to=up_to, cap=cap)
    first = min(base, cap) * (1 - jitter)
    assert first - timedelta(milliseconds=1) <= policy.delay(failed, chance) <= cap


def test_a_jitter_as_long_as_the_cap_leaves_the_first_wait() -> None:
    """The window that is moved down below the cap ends at the shortest first wait, and not at nothing."""
    assert window(RetryPolicy(base="10s", jitter=0.5, jitter_up_to="1m", cap="1m"), 9) == (5, 60)


def test_jobs_that_failed_together_come_back_spread_over_their_window() -> None:
    """Five hundred that lost the same provider within a second would else take it down again."""
    chance = Random(1)
    policy = RetryPolicy(base="10s")
    due = Counter(int(policy.delay(1, chance).total_seconds() * 10) for _ in range(500))
    assert (min(due), max(due)) == (85, 114)
    assert max(due.values()) <= 25


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
        {"factor": float("inf")},
        {"factor": 10**5000},
        {"factor": "2"},
        {"factor": None},
        {"factor": True},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"jitter": float("inf")},
        {"jitter": "10%"},
        {"jitter": True},
        {"base": float("nan")},
        {"base": float("inf")},
        {"cap": float("nan")},
        {"cap": None},
        {"cap": float("-inf")},
        {"jitter_up_to": float("nan")},
        {"jitter_up_to": 1e300},
        {"max_attempts": float("nan")},
        {"max_attempts": float("inf")},
        {"backoff": ["fixed"]},
        {"on_unknown": None},
        {"on_unknown": "explode"},
        {"permanent": [ValueError]},
        {"transient": ("ValueError",)},
        {"permanent": 3},
        {"transient": int},
    ],
    ids=lambda wrong: f"{next(iter(wrong))}={shown(next(iter(wrong.values())))}",
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    """At import, not at the first failure in the night; in one line, which names the argument."""
    (name,) = wrong
    with pytest.raises(InvalidDefinition) as refused:
        RetryPolicy(**wrong)
    said = str(refused.value)
    assert said.startswith((f"{name} ", f"RetryPolicy({name}=...): "))
    assert "\n" not in said
    assert len(said) < 300


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


# -- groups, and tests that fail --------------------------------------------------------------------------------------

BOTH = RetryPolicy(permanent=(KeyError,), transient=(ProviderDown,), on_unknown="dead_letter")


@pytest.mark.parametrize(
    ("members", "judgement"),
    [
        ([ProviderDown(), PermanentJobError("x")], "permanent"),
        ([RuntimeError(), KeyError("x")], "permanent"),
        ([ProviderDown(), InvalidPayload("x")], "permanent"),
        ([ProviderDown(), TransientJobError("x")], "transient"),
        ([ProviderDown(), RuntimeError()], "unknown"),
        ([RuntimeError()], "unknown"),
        ([ExceptionGroup("inner", [ProviderDown()]), ProviderDown()], "transient"),
        ([ExceptionGroup("inner", [ProviderDown(), KeyError("x")]), ProviderDown()], "permanent"),
    ],
    ids=repr,
)
def test_a_group_is_what_its_members_are(members: list[Exception], judgement: str) -> None:
    """``asyncio.TaskGroup`` wraps what a task raised: a permanent error in it must not be tried again, nor a transient one be the end."""
    assert BOTH.judge(ExceptionGroup("several", members)) == judgement


def test_a_group_that_is_listed_itself_needs_no_look_inside() -> None:
    """The list names it."""
    group = ExceptionGroup("several", [KeyError("x")])
    assert RetryPolicy(permanent=KeyError, transient=ExceptionGroup).judge(group) == "transient"


def test_a_group_however_deep_is_judged() -> None:
    """Each retry of a loop may wrap the one before."""
    error: Exception = ProviderDown()
    for _ in range(5000):
        error = ExceptionGroup("again", [error])
    assert BOTH.judge(error) == "transient"
    assert [type(one) for one in members_of(error)] == [ProviderDown]


def is_gone(error: BaseException) -> bool:
    return bool(error.status == 410)  # type: ignore[attr-defined]  # most errors have none: that is the point


def test_a_test_that_raises_has_not_said_yes() -> None:
    """It looks for what this error does not have; the other tests are asked all the same."""
    policy = RetryPolicy(permanent=(is_gone, KeyError), transient=OSError, on_unknown="dead_letter")
    assert policy.judge(OSError()) == "transient"
    assert policy.judge(KeyError()) == "permanent"
    judgement, failed = policy.weigh(RuntimeError())
    assert judgement == "unknown"
    assert isinstance(failed, AttributeError)
    assert RetryPolicy().weigh(RuntimeError()) == ("unknown", None)
