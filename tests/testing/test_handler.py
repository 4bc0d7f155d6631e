"""``run_job`` and ``make_job``: a handler by itself, and a job by hand."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from onward import InvalidDefinition, InvalidPayload, JobContext, OnwardError, PermanentJobError, Snooze, Status, define_job
from onward.status import FINAL
from onward.testing import make_context, make_job, run_job


@dataclass
class Number:
    value: int


def double(payload: Number, ctx: JobContext) -> dict[str, Any]:
    ctx.record(processed=payload.value)
    if ctx.services == "broken":
        raise PermanentJobError("broken")
    return {"twice": payload.value * 2, "attempt": ctx.attempt, "type": ctx.job.type, "services": ctx.services}


async def double_async(payload: Number) -> int:
    await asyncio.sleep(0)
    return payload.value * 2


doubled = define_job("double", double, queue="math", priority=4)
doubled_async = define_job("double-async", double_async)


def test_a_handler_is_called_with_a_plain_context() -> None:
    """No store, no worker: a unit test of the handler alone."""
    result = run_job(doubled, Number(3), services="desk", attempts=2)
    assert result == {"twice": 6, "attempt": 2, "type": "double", "services": "desk"}


def test_an_async_handler_is_run_to_its_end() -> None:
    """The test need not be async for it."""
    assert run_job(doubled_async, Number(3)) == 6


def test_a_handler_without_arguments_is_called_with_none() -> None:
    """And what it returns to the worker comes back as it is."""
    assert isinstance(run_job(define_job("later", lambda: Snooze("5m"))), Snooze)


def test_what_the_handler_raises_is_raised() -> None:
    """A test asserts on the error itself, not on how a worker would store it."""
    with pytest.raises(PermanentJobError, match="broken"):
        run_job(doubled, Number(3), services="broken")


def test_a_payload_that_could_not_be_enqueued_is_refused() -> None:
    """A unit test must not pass with what production refuses."""
    with pytest.raises(InvalidPayload):
        run_job(doubled, Number("three"))  # type: ignore[arg-type]


def test_inside_a_running_loop_an_async_handler_is_awaited_by_hand() -> None:
    """A loop cannot wait for itself; the error says what to do."""

    async def scenario() -> None:
        with pytest.raises(OnwardError, match="await"):
            run_job(doubled_async, Number(3))
        assert await doubled_async.call(Number(3), make_context(doubled_async, Number(3))) == 6

    asyncio.run(scenario())


def test_the_context_can_be_looked_at_afterwards() -> None:
    """What a handler recorded and enqueued is half of what it does."""
    context = make_context(doubled, Number(3), owner="ada")
    doubled.call(Number(3), context)
    assert (context.processed, context.job.owner, context.job.queue, context.job.priority) == (3, "ada", "math", 4)


@pytest.mark.parametrize("status", list(Status))
def test_make_job_gives_a_job_as_a_store_would(status: Status) -> None:
    """The fields that a status implies are there, so a test of what reads jobs meets no impossible one."""
    job = make_job(status, payload={"b": 1, "a": 2})
    assert (job.status, job.payload) == (status, '{"a":2,"b":1}')
    assert (job.lease_owner is not None) == (job.lease_until is not None) == (status is Status.IN_PROGRESS)
    assert (job.finished_at is not None) == (status in FINAL)
    assert (job.started_at is not None) == (job.attempts > 0) == (job.fence > 0)


def test_any_field_of_make_job_can_be_given() -> None:
    """Two jobs made alike still have ids of their own."""
    job = make_job("retrying", attempts=3, priority=9, type="mail", error="boom")
    assert (job.status, job.attempts, job.priority, job.type, job.error) == (Status.RETRYING, 3, 9, "mail", "boom")
    assert make_job().id != make_job().id


def test_a_function_is_not_a_job() -> None:
    """The first thing a newcomer hands over."""
    with pytest.raises(InvalidDefinition, match=r"give what define_job\(name, handler\) returned"):
        run_job(double, Number(3))  # type: ignore[arg-type]  # that is the point


def test_a_handler_that_needs_a_store_is_told_how_it_is_tested() -> None:
    """``ctx.transaction()`` writes into a real database; the error names the way that has one."""

    def book(payload: Number, ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            connection.execute("SELECT 1")

    with pytest.raises(OnwardError, match=r'Onward\(f"sqlite:///\{tmp_path\}/test.db".*onward.testing.drain'):
        run_job(define_job("book", book), Number(3))
