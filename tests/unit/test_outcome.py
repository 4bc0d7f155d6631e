from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from onward.durations import LONGEST, type_of_duration
from onward.error_text import describe_error
from onward.errors import InvalidPayload, InvalidTime, PermanentJobError, TransientJobError
from onward.outcome import (
    LEASE_RAN_OUT,
    MOST_LOSSES,
    MOST_RELEASES,
    MOST_SNOOZES,
    PROCESS_DIED,
    STOPPED,
    UNSTORABLE,
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
    as_stored,
    attempts_after_loss,
    decide,
    end_lost,
    end_settled,
    is_stored,
    lose,
    storable,
)
from onward.retry import RetryPolicy
from onward.spelling import shown
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


@pytest.mark.parametrize(
    ("asked", "delay"),
    [
        ("5m", 300),
        (7, 7),
        (0, 0),
        ("120", 120),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0),
        (timedelta(seconds=3), 3),
        (LONGEST, LONGEST.total_seconds()),
    ],
)
def test_retry_after_replaces_the_back_off(asked: Any, delay: float) -> None:
    """The service knows best when it is there again."""
    outcome = end(TransientJobError("busy", retry_after=asked))
    assert isinstance(outcome, Retried)
    assert outcome.delay == timedelta(seconds=delay)


@pytest.mark.parametrize(
    "asked",
    [
        *("soon", -1, float("nan"), float("inf"), True, 10**5000, "9" * 100_000),
        *(LONGEST + timedelta(microseconds=1), "Thu, 01 Jan 2126 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", timedelta.max),
    ],
    ids=lambda asked: shown(asked)[:40],
)
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


def test_of_several_services_the_one_that_is_back_last_is_waited_for() -> None:
    """A group of tasks failed; the whole handler runs again. What cannot be read counts for nothing, and is said."""
    members = [TransientJobError("a", retry_after="1m"), TransientJobError("b", retry_after=7), TransientJobError("c")]
    assert end(ExceptionGroup("several", members)) == end_with(timedelta(minutes=1), ExceptionGroup("several", members))
    outcome = end(ExceptionGroup("several", [*members, TransientJobError("d", retry_after="soon")]))
    assert isinstance(outcome, Retried)
    assert outcome.delay == timedelta(minutes=1)
    assert outcome.error.endswith("(retry_after ignored: 'soon' is neither " + type_of_duration + ", nor an HTTP date)")
    assert isinstance(end(ExceptionGroup("several", [*members, PermanentJobError("gone")])), DeadLettered)


def end_with(delay: timedelta, error: BaseException) -> Retried:
    return Retried(delay, describe_error(error))


def test_a_test_of_the_policy_that_fails_hides_no_error() -> None:
    """What went wrong in the handler is what a person has to know; that the test is wrong as well stands below."""
    policy = RetryPolicy(3, base="10s", jitter=0, permanent=lambda error: bool(error.status == 410))  # type: ignore[attr-defined]
    outcome = end(RuntimeError("the provider is away"), policy)
    assert isinstance(outcome, Retried)
    assert outcome.delay == timedelta(seconds=10)
    assert outcome.error.startswith("RuntimeError: the provider is away")
    assert outcome.error.endswith("(a test of the retry policy could not say what this means: AttributeError)")
    last = end(RuntimeError("the provider is away"), policy, attempts=3)
    assert isinstance(last, DeadLettered)
    assert last.error == outcome.error


@pytest.mark.parametrize(
    "wrong",
    [*("soon", "", -1, "-5m", True, None, float("nan"), float("inf"), 10**5000), timedelta(-1), LONGEST + timedelta(microseconds=1)],
    ids=lambda wrong: shown(wrong)[:40],
)
def test_a_snooze_that_no_store_could_keep_is_refused_where_it_is_made(wrong: Any) -> None:
    """In the handler, which fails by it in one line; else the outcome would be one that cannot be stored."""
    with pytest.raises(InvalidTime) as refused:
        Snooze(wrong)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300
    outcome = end(refused.value)
    assert isinstance(outcome, Retried)
    assert outcome.error.startswith(f"InvalidTime: {refused.value}")


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(microseconds=1), LONGEST])
def test_a_snooze_is_from_nothing_to_a_hundred_years(delay: timedelta) -> None:
    """At nothing it runs again at once: that it does so for ever is what the bound on snoozes is for."""
    assert end(Snooze(delay)) == Snoozed(delay)


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
    ("ran_isolated", "lost_leases", "attempts", "status", "counted"),
    [
        (False, 0, 0, Status.QUEUED, 0),
        (False, 0, 1, Status.QUEUED, 0),
        (False, 0, 3, Status.QUEUED, 2),
        (False, MOST_LOSSES - 2, 3, Status.QUEUED, 2),
        (False, MOST_LOSSES - 1, 2, Status.QUEUED, 2),
        (False, MOST_LOSSES - 1, 3, Status.DEAD_LETTER, 3),
        (True, 0, 1, Status.QUEUED, 1),
        (True, 1, 2, Status.QUEUED, 2),
        (True, 0, 3, Status.DEAD_LETTER, 3),
        (True, 0, 4, Status.DEAD_LETTER, 4),
    ],
)
def test_a_loss_is_charged_only_to_who_ran_alone_or_is_lost_for_ever(
    ran_isolated: bool, lost_leases: int, attempts: int, status: Status, counted: int
) -> None:
    """A neighbour's crash costs no try, be it the first or the last; that the claim was to run alone proves nothing."""
    job = make_job(isolated=True, ran_isolated=ran_isolated, lost_leases=lost_leases, attempts=attempts, max_attempts=3)
    assert lose(job) is status
    assert attempts_after_loss(job) == counted


@pytest.mark.parametrize("why", [PROCESS_DIED, LEASE_RAN_OUT])
def test_only_a_job_that_began_alone_in_the_process_is_blamed_for_its_death(why: str) -> None:
    """An isolated one mostly runs in a process of its own, whose death its worker outlives."""
    elsewhere = make_job(isolated=True, attempts=3, max_attempts=3)
    assert end_lost(elsewhere, why).status is Status.QUEUED
    assert end_lost(replace(elsewhere, ran_isolated=True), why).status is Status.DEAD_LETTER


def test_deciding_is_pure() -> None:
    """The same run, the same outcome: nothing is read from the clock or a hidden generator."""
    jittery = RetryPolicy(3)
    assert end(RuntimeError("x"), jittery) == end(RuntimeError("x"), jittery)


@pytest.mark.parametrize(
    "outcome", [Retried(timedelta(seconds=5), "boom"), Snoozed(timedelta(seconds=5)), Released(), DeadLettered("hopeless")]
)
def test_a_job_that_was_asked_to_stop_does_not_wait_again(outcome: Outcome) -> None:
    """Whatever its run asked for, it ends cancelled; nothing is given back and nothing is counted."""
    job = make_job(attempts=2, snoozes=1, releases=1, error="older")
    ending = end_settled(job, outcome, is_cancel_requested=True)
    assert (ending.status, ending.name, ending.error, ending.reason) == (Status.CANCELLED, "cancelled", STOPPED, STOPPED)
    assert (ending.attempts, ending.snoozes, ending.releases, ending.delay) == (2, 1, 1, None)


@pytest.mark.parametrize("outcome", [Completed("1"), Cancelled("not needed")])
def test_what_completed_or_was_given_up_stands_whoever_asked_to_cancel(outcome: Outcome) -> None:
    """It says more than the request does."""
    asked, not_asked = (end_settled(make_job(), outcome, is_cancel_requested=asked) for asked in (True, False))
    assert asked == not_asked
    assert asked.status is outcome.status


def test_an_ending_can_be_told_again_and_no_other_can() -> None:
    """The row shows which ending was stored: a late word of the same claim in other terms is not it."""
    job = make_job(fence=3)
    row = replace(job, status=Status.DEAD_LETTER, error="hopeless")
    assert is_stored(row, job, DeadLettered("hopeless"))
    assert not is_stored(row, job, DeadLettered("another reason"))
    assert not is_stored(row, job, Cancelled("hopeless"))
    assert not is_stored(replace(row, fence=4), job, DeadLettered("hopeless"))
    asked = replace(job, status=Status.CANCELLED, error=STOPPED, cancel_requested_at=NOW)
    assert is_stored(asked, job, Released())
    assert is_stored(asked, job, Retried(timedelta(0), "boom"))


def test_a_sweep_is_not_taken_for_a_release() -> None:
    """Both leave the job queued under the same fence; what they count differs."""
    job = make_job(fence=1, attempts=1)
    lost = end_lost(job, LEASE_RAN_OUT)
    row = replace(job, status=lost.status, attempts=lost.attempts, lost_leases=lost.lost_leases, error=lost.error)
    assert not is_stored(row, job, Released())


def test_a_loss_names_the_worker_and_keeps_what_was_asked() -> None:
    """The history tells the loss; a job that was to be cancelled is, and runs no more."""
    job = make_job(lease_owner="host:1:one", lost_leases=1)
    assert end_lost(job, PROCESS_DIED).error == "worker lost: the process host:1:one died while it ran"
    ending = end_lost(replace(job, cancel_requested_at=NOW), LEASE_RAN_OUT)
    assert (ending.status, ending.error, ending.lost_leases, ending.name) == (Status.CANCELLED, STOPPED, 2, "lost")
    assert ending.reason == "lease lost: the worker host:1:one stopped renewing it"


def test_text_is_made_storable_without_being_lost() -> None:
    """A lone surrogate has no form in UTF-8, and a NUL ends a text for some databases."""
    assert storable("größe") == "größe"
    assert storable("half \ud800 and \0") == "half \\ud800 and \\x00"
    assert storable("größe \0") == "größe \\x00"


@pytest.mark.parametrize("result", ['"\ud800"', '"\0"', "größe\0"])
def test_a_result_that_no_database_stores_is_left_out_and_said(result: str) -> None:
    """The work is done, so the job completes; the worker is told the same that the row tells."""
    ending = end_settled(make_job(), Completed(result), is_cancel_requested=False)
    assert (ending.status, ending.result, ending.error) == (Status.COMPLETED, None, UNSTORABLE)
    assert as_stored(Completed(result), is_cancel_requested=True) == Completed(error=UNSTORABLE)


def test_an_outcome_that_nothing_changes_is_the_one_that_was_told() -> None:
    """Who reports it sees at once that nothing was decided otherwise."""
    for outcome in (
        Completed("1"),
        Completed(error="no"),
        Retried(timedelta(0), "boom"),
        DeadLettered("hopeless"),
        Cancelled("not needed"),
    ):
        assert as_stored(outcome, is_cancel_requested=False) is outcome
    assert as_stored(DeadLettered("hopeless"), is_cancel_requested=True) == Cancelled(STOPPED)
