"""One claim, run to its end: whatever a handler does becomes one outcome."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.context import JobContext
from onward.definition import JobDefinition, define_job
from onward.errors import OnwardError, PermanentJobError
from onward.outcome import Cancel, Cancelled, Completed, DeadLettered, Release, Released, Retried, Snooze, Snoozed
from onward.registry import Registry
from onward.status import Status
from onward.testing.factories import make_job
from onward.turn import Claim, Settlement
from onward.worker.executor import Executor

child = define_job("child", lambda payload: None, payload=int)


def run(handler: Callable[..., Any], *, payload: Any = 1, clock: FakeClock | None = None, **rules: Any) -> Settlement:
    definition: JobDefinition[Any] = define_job("work", handler, payload=rules.pop("payload_type", int), **rules)
    claim = Claim(make_job(Status.IN_PROGRESS, payload=payload), timedelta(seconds=60))
    return Executor(Registry([definition, child]), clock=clock).run(claim)


def raising(error: BaseException) -> Callable[[int], None]:
    def handler(payload: int) -> None:
        raise error

    return handler


def raising_async(error: BaseException) -> Callable[[int], Any]:
    async def handler(payload: int) -> None:
        raise error

    return handler


@pytest.mark.parametrize(
    ("returned", "expected"),
    [({"a": 1}, Completed), (None, Completed), (Snooze("5m"), Snoozed), (Cancel("no need"), Cancelled), (Release(), Released)],
)
def test_what_a_handler_returns_decides_the_outcome(returned: object, expected: type) -> None:
    """Sync and async handlers go the same way, so that no rule can hold for one of them only."""

    async def handler(payload: int) -> object:
        return returned

    assert isinstance(run(lambda payload: returned).outcome, expected)
    assert isinstance(run(handler).outcome, expected)


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), RecursionError(), asyncio.CancelledError(), GeneratorExit()]
)
def test_no_exception_leaves_the_executor(error: BaseException) -> None:
    """A handler that calls sys.exit or cancels itself has failed a try, and must not end its worker."""
    assert isinstance(run(raising(error)).outcome, Retried)
    assert isinstance(run(raising_async(error)).outcome, Retried)


def test_an_error_without_readable_text_still_becomes_an_outcome() -> None:
    """The text of an error is made by the application's code, which may fail as well."""

    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert isinstance(run(raising(Unreadable())).outcome, Retried)


def test_a_payload_of_another_shape_is_dead_lettered_at_once() -> None:
    """Trying again cannot mend stored bytes; the reason names the field."""
    outcome = run(lambda payload: None, payload="seven").outcome
    assert isinstance(outcome, DeadLettered)
    assert "InvalidPayload" in outcome.error or "$" in outcome.error


def test_an_unknown_type_is_given_back_without_a_try() -> None:
    """Another worker may know it: between claim and run a definition is never invented."""
    claim = Claim(make_job(Status.IN_PROGRESS, type="elsewhere"), timedelta(seconds=60))
    assert isinstance(Executor(Registry()).run(claim).outcome, Released)


def test_a_sync_handler_that_returns_a_coroutine_fails_and_says_why() -> None:
    """Its work was never awaited, so the job must not count as done."""

    async def work() -> None: ...

    outcome = run(lambda payload: work()).outcome
    assert isinstance(outcome, Retried)
    assert "async def" in outcome.error


def test_over_the_limit_counts_as_timed_out_whatever_the_handler_returns() -> None:
    """A broad except in the handler must not turn a time-out into a success."""
    clock = FakeClock()

    def slow(payload: int) -> str:
        clock.advance(3)
        return "ok"

    outcome = run(slow, clock=clock, timeout="2s").outcome
    assert isinstance(outcome, Retried)
    assert "timed out after 2s" in outcome.error


@pytest.mark.parametrize(("seconds", "isolated"), [(3, True), (1, False)])
def test_only_what_did_not_end_in_time_runs_alone_the_next_time(seconds: int, isolated: bool) -> None:
    """It may hang again and cost its process, so it has no neighbours there; a plain failure needs no such care."""
    clock = FakeClock()

    def slow(payload: int) -> None:
        clock.advance(seconds)
        raise ValueError("no")

    outcome = run(slow, clock=clock, timeout="2s").outcome
    assert isinstance(outcome, Retried)
    assert outcome.isolated is isolated


def test_an_async_handler_is_cancelled_at_its_limit_and_cannot_swallow_that() -> None:
    """The worker's own clock decides, also when the handler catches the cancellation and returns."""
    seen = []

    async def stubborn(payload: int) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
        return "ok"

    outcome = run(stubborn, timeout=0.01).outcome
    assert seen == ["cancelled"]
    assert isinstance(outcome, Retried)
    assert "timed out" in outcome.error


def test_children_are_sent_with_a_completion_only() -> None:
    """A try that fails must leave no work behind."""

    def good(payload: int, ctx: JobContext) -> None:
        ctx.enqueue(child, 1)

    def bad(payload: int, ctx: JobContext) -> None:
        ctx.enqueue(child, 1)
        raise PermanentJobError("no")

    assert [one.type for one in run(good).children] == ["child"]
    assert run(bad).children == ()


def test_a_child_that_the_application_does_not_have_is_refused_at_once() -> None:
    """Stored, it would wait for ever for a handler; a context made by hand knows no application and takes any."""
    stranger = define_job("stranger", lambda payload: None, payload=int)

    def handler(payload: int, ctx: JobContext) -> None:
        ctx.enqueue(stranger, 1)

    settlement = run(handler)
    assert isinstance(settlement.outcome, Retried)
    assert "UnknownJobType: 'stranger' is not a job of this application" in settlement.outcome.error
    assert JobContext(make_job()).enqueue(stranger, 1)


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf"), -1, 2**53 + 1, 2**70, True, "3", None])
def test_only_whole_numbers_are_counted(value: Any) -> None:
    """The error is raised where the mistake is, not in the store, where it would cost the outcome."""
    context = JobContext(make_job())
    context.record(processed=2)
    for count in ({"processed": value}, {"failed": value}, {"processed": 1, "failed": value}):
        with pytest.raises(OnwardError, match=r"ctx\.record\((processed|failed)=\.\.\.\)"):
            context.record(**count)
    assert (context.processed, context.failed) == (2, 0)
    with pytest.raises(OnwardError, match="beyond"):
        context.record(processed=2**53 - 1)
    context.record(processed=2**53 - 2)
    assert context.processed == 2**53


class LeavesInItsText(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class LeavesInItsNotes(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise KeyboardInterrupt


@pytest.mark.parametrize("error", [LeavesInItsText(), LeavesInItsNotes("x")])
def test_an_error_whose_own_code_wants_to_leave_becomes_an_outcome(error: BaseException) -> None:
    """SystemExit from an error's text would take the slot along, and its job with it."""
    for settlement in (run(raising(error)), run(raising_async(error))):
        assert isinstance(settlement.outcome, Retried)
        assert type(error).__name__ in settlement.outcome.error


def test_a_policy_that_wants_to_leave_becomes_an_outcome(caplog: pytest.LogCaptureFixture) -> None:
    """What the application hands in may raise anything; only the type's name is logged, since its text may do the same."""

    class Leaving(Cancel):
        @property
        def reason(self) -> str:  # type: ignore[override]
            raise SystemExit("secret")

        @reason.setter
        def reason(self, value: str) -> None: ...

    outcome = run(lambda payload: Leaving()).outcome
    assert isinstance(outcome, DeadLettered)
    assert outcome.error == "no outcome could be chosen: SystemExit"
    assert "secret" not in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
def test_nothing_keeps_the_error_of_a_settled_run(is_async: bool) -> None:
    """A traceback holds every local of the handler; kept until the next collection it would fill the memory of a failing worker."""

    class Local:
        pass

    seen: list[weakref.ref[Local]] = []

    def fail() -> None:
        local = Local()
        seen.append(weakref.ref(local))
        raise ValueError("x")

    async def fail_async(payload: int) -> None:
        fail()

    gc.collect()
    gc.disable()
    try:
        settlement = run(fail_async if is_async else lambda payload: fail())
        if is_async:
            gc.collect()  # asyncio.run itself leaves cycles of its own loop
        assert seen[0]() is None
    finally:
        gc.enable()
    assert isinstance(settlement.outcome, Retried)
