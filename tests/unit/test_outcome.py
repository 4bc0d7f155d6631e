from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from onward.errors import InvalidPayload, PermanentJobError, TransientJobError
from onward.outcome import (
    MOST_RELEASES,
    MOST_SNOOZES,
    Cancel,
    Cancelled,
    Completed,
    DeadLettered,
    Outcome,
    Release,
    Released,
    Retried,
    Snooze,
    Snoozed,
    StoppedByWorker,
    attempts_after_loss,
    decide,
    lose,
)
from onward.retry import RetryPolicy
from onward.status import TRANSITIONS, Status
from tests.unit.making import NOW, make_job

POLICY = RetryPolicy(3, base="10s", jitter=0, permanent=(KeyError,), transient=(OSError,))


def end(ending: object, policy: RetryPolicy = POLICY, **fields: Any) -> Outcome:
    return decide(make_job(**fields), ending, policy, NOW, Random(1))


# ending, the outcome with a try left, at the last try, and with on_unknown="dead_letter"
ENDINGS: list[tuple[object, type, type, type]] = [
    (None, Completed, Completed, Completed),
    ({"rows": 3}, Completed, Completed, Completed),
    (object(), Completed, Completed, Completed),
    (Snooze("5m"), Snoozed, Snoozed, Snoozed),
    (Cancel("no need"), Cancelled, Cancelled, Cancelled),
    (Release(), Released, Released, Released),
    (StoppedByWorker(), Released, Released, Released),
    (PermanentJobError("gone"), DeadLettered, DeadLettered, DeadLettered),
    (InvalidPayload("wrong"), DeadLettered, DeadLettered, DeadLettered),
    (TransientJobError("busy"), Retried, DeadLettered, Retried),
    (OSError("disk"), Retried, DeadLettered, Retried),
    (RuntimeError("what"), Retried, DeadLettered, DeadLettered),
    (KeyError("x"), DeadLettered, DeadLettered, DeadLettered),
    (SystemExit(1), Retried, DeadLettered, DeadLettered),
    (KeyboardInterrupt(), Retried, DeadLettered, DeadLettered),
    (ExceptionGroup("many", [ValueError("a"), OSError("b")]), Retried, DeadLettered, DeadLettered),
]


@pytest.mark.parametrize(
    ("ending", "left", "last", "strict"), ENDINGS, ids=lambda one: one.__name__ if isinstance(one, type) else type(one).__name__
)
def test_every_ending_has_one_outcome(ending: object, left: type, last: type, strict: type) -> None:
    """One table for worker, drain and every later way to run a job. KeyError is permanent only where the policy lists it."""
    assert type(end(ending)) is left
    assert type(end(ending, attempts=3)) is last
    policy = RetryPolicy(3, transient=(OSError,), permanent=(KeyError,), on_unknown="dead_letter")
    assert type(end(ending, policy)) is strict


@pytest.mark.parametrize("ending", [ending for ending, *_ in ENDINGS], ids=lambda one: type(one).__name__)
def test_a_requested_cancellation_wins_over_everything_but_completion_and_snooze(ending: object) -> None:
    """A job that a person wants gone is not tried again; work that is done stays done."""
    outcome = end(ending, cancel_requested_at=NOW)
    expected = (
        Completed
        if ending is None or isinstance(ending, dict) or type(ending) is object
        else Snoozed
        if isinstance(ending, Snooze)
        else Cancelled
    )
    assert type(outcome) is expected


@pytest.mark.parametrize("kind", [Completed, Retried, Snoozed, Released, Cancelled, DeadLettered])
def test_every_outcome_is_an_arrow_of_the_table(kind: Any) -> None:
    """An outcome that leads elsewhere than its arrow would be two truths."""
    assert TRANSITIONS[(Status.IN_PROGRESS, kind.verb)] == (kind.status,)


def test_a_retry_waits_as_its_policy_says() -> None:
    """The n-th failure waits the n-th time."""
    first, second = end(RuntimeError("x")), end(RuntimeError("x"), attempts=2)
    assert isinstance(first, Retried)
    assert isinstance(second, Retried)
    assert (first.delay, second.delay) == (timedelta(seconds=10), timedelta(seconds=20))
    assert first.error.startswith("RuntimeError: x")


@pytest.mark.parametrize(("asked", "delay"), [("5m", 300), (7, 7), ("Thu, 01 Jan 2026 00:02:00 GMT", 120), (timedelta(seconds=3), 3)])
def test_retry_after_replaces_the_back_off(asked: Any, delay: float) -> None:
    """The service knows best when it is there again."""
    outcome = end(TransientJobError("busy", retry_after=asked))
    assert isinstance(outcome, Retried)
    assert outcome.delay == timedelta(seconds=delay)


@pytest.mark.parametrize("asked", ["soon", -1, float("nan"), "9" * 100_000])
def test_an_unreadable_retry_after_falls_back_to_the_policy_and_says_so(asked: Any) -> None:
    """A strange header must not cost the job its try, nor bloat its row."""
    outcome = end(TransientJobError("busy", retry_after=asked))
    assert isinstance(outcome, Retried)
    assert outcome.delay == timedelta(seconds=10)
    assert "retry_after ignored" in outcome.error
    assert len(outcome.error.encode()) <= 8192


def test_an_unreadable_retry_after_at_the_last_try_is_a_dead_letter_all_the_same() -> None:
    """The limit comes first."""
    assert isinstance(end(TransientJobError("busy", retry_after="soon"), attempts=3), DeadLettered)


@pytest.mark.parametrize(
    "result", [object(), float("nan"), {"a": {1, object()}}, "\ud800", "x" * 300_000], ids=["object", "nan", "nested", "surrogate", "large"]
)
def test_a_result_that_has_no_json_form_completes_with_a_note(result: object) -> None:
    """The work is done; running it again because of its result would do it twice."""
    outcome = end(result)
    assert isinstance(outcome, Completed)
    assert outcome.result is None
    assert outcome.error is not None
    assert outcome.error.startswith("result could not be stored: ")


def test_a_result_is_stored_as_json() -> None:
    """What ``jobs show`` prints."""
    assert end({"b": 1, "a": [2]}) == Completed('{"a":[2],"b":1}')
    assert end(None) == Completed(None)


@pytest.mark.parametrize("ending", [Release(), StoppedByWorker()], ids=["asked", "stopped"])
def test_from_the_twentieth_release_on_each_counts_as_a_try(ending: object) -> None:
    """A job longer than the grace would else be started for ever."""
    assert isinstance(end(ending, releases=MOST_RELEASES - 2), Released)
    counted = end(ending, releases=MOST_RELEASES - 1)
    assert isinstance(counted, Retried)
    assert counted.delay == timedelta(0)
    assert "grace" in counted.error
    assert isinstance(end(ending, releases=MOST_RELEASES - 1, attempts=3), DeadLettered)


def test_snoozes_end_at_a_thousand() -> None:
    """A job that only ever waits is not making progress."""
    assert end(Snooze("1s"), snoozes=MOST_SNOOZES - 1) == Snoozed(timedelta(seconds=1))
    assert isinstance(end(Snooze("1s"), snoozes=MOST_SNOOZES), DeadLettered)


def test_the_reason_of_a_cancel_is_bounded_and_without_secrets() -> None:
    """It is stored where errors are."""
    outcome = end(Cancel("password=canary \x1b[31m" + "x" * 100_000))
    assert isinstance(outcome, Cancelled)
    assert "canary" not in outcome.reason
    assert "\x1b" not in outcome.reason
    assert len(outcome.reason.encode()) <= 8192


@pytest.mark.parametrize(
    ("isolated", "attempts", "status", "counted"),
    [
        (False, 1, Status.QUEUED, 1),
        (False, 3, Status.QUEUED, 2),
        (True, 1, Status.QUEUED, 1),
        (True, 2, Status.QUEUED, 2),
        (True, 3, Status.DEAD_LETTER, 3),
        (True, 4, Status.DEAD_LETTER, 4),
        (False, 1_000_000, Status.QUEUED, 999_999),
    ],
)
def test_only_an_isolated_claim_can_be_blamed_for_its_process(isolated: bool, attempts: int, status: Status, counted: int) -> None:
    """A neighbour that only shared the process is never dead-lettered for it: its last try is given back."""
    job = make_job(isolated=isolated, attempts=attempts, max_attempts=1_000_000 if attempts == 1_000_000 else 3)
    assert lose(job) is status
    assert attempts_after_loss(job) == counted


def test_deciding_is_pure() -> None:
    """The same run, the same outcome: nothing is read from the clock or a hidden generator."""
    jittery = RetryPolicy(3)
    assert end(RuntimeError("x"), jittery) == end(RuntimeError("x"), jittery)
