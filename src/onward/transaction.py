"""``with_transactional_state_and_enqueue``: a change and its job, both or neither.

The change and the job are one commit wherever one transaction can hold both. Where none can, because the state is in another
database than the jobs, the change is made first and compensated if the job is not accepted; a process that ends in between leaves the
change without its job, which no library can prevent there.

What is done, and in which order, is written once, as generators of steps; the two functions at the end take one step each, in their colour.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from onward.app import Onward
from onward.error_text import describe_error
from onward.errors import DuplicateJob, InvalidDefinition, OutcomeUnknown
from onward.handle import JobHandle
from onward.jobs import NewJob
from onward.spelling import shown
from onward.steps import drive, drive_awaited

if TYPE_CHECKING:
    from asyncio import Task

T = TypeVar("T")
Verb: TypeAlias = Callable[..., Any]
Step: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Step, Any, JobHandle]
"""Yields what is to be called next, and is sent what that gave."""

PAUSES = (0.1, 0.4)
"""Seconds before the second and the third try of an enqueue whose outcome is unknown, and of a compensation that failed."""

logger = logging.getLogger("onward")
_finishing: set[Task[JobHandle]] = set()
"""Keeps alive what goes on after its caller was cancelled; a loop holds its tasks weakly."""


def with_transactional_state_and_enqueue(
    app: Onward,
    change: Callable[[Any], T],
    enqueue: Callable[[T], NewJob],
    compensate: Callable[[T], object] | None = None,
    *,
    transaction: AbstractContextManager[Any] | None = None,
    within: Any = None,
) -> JobHandle:
    """Make a change and enqueue the job that belongs to it: both, or neither.

    ``change`` is called first, with the connection, and ``enqueue`` with what it returned: it says which job, as
    ``generate.new_job(Generate(7), owner="ada")``, and this function enqueues that, so that it can neither be forgotten nor be left
    outside of the transaction.

    ``transaction`` is a context manager that gives the connection and commits at its end, such as ``app.transaction()``, SQLAlchemy's
    ``Session.begin()`` or a pool's ``pool.connection()``: after an error in either neither is there. ``within`` is a connection on
    which the caller's own transaction is open, as for ``app.enqueue``: let the error leave its block, so that it is rolled back.

    Without either there is no common transaction: ``change`` is called with None, and if the job is not accepted, ``compensate`` with
    what ``change`` returned, up to three times until it succeeds; so it must be safe to run twice. The error is that of the enqueue, with
    a note if the compensation failed as well. After ``OutcomeUnknown`` the job may be there: the enqueue is repeated under the same id,
    and if that does not settle it, nothing is compensated.

    Raises ``InvalidDefinition`` when ``enqueue`` gives no job, or neither transaction nor compensation is given; and as ``app.enqueue``.
    """
    _check_ways(transaction, within, compensate)
    if transaction is not None:
        with transaction as connection:
            return drive(_take, _in_transaction(app.enqueue_many, change, enqueue, _given(connection)))
    if within is not None:
        return drive(_take, _in_transaction(app.enqueue_many, change, enqueue, within))
    return drive(_take, _compensated(app.enqueue_many, time.sleep, change, enqueue, compensate))


async def awith_transactional_state_and_enqueue(
    app: Onward,
    change: Callable[[Any], Awaitable[T]],
    enqueue: Callable[[T], NewJob],
    compensate: Callable[[T], Awaitable[object]] | None = None,
    *,
    transaction: AbstractAsyncContextManager[Any] | None = None,
    within: Any = None,
) -> JobHandle:
    """``with_transactional_state_and_enqueue`` for code on an event loop: ``change`` and ``compensate`` are awaited.

    ``transaction`` is entered with ``async with``, such as ``async_sessionmaker.begin()``. Without a transaction, a caller that is
    cancelled goes at once, while what it began is brought to its end: job or compensation.
    """
    import asyncio

    _check_ways(transaction, within, compensate)
    if transaction is not None:
        async with transaction as connection:
            return await drive_awaited(_take_async, _in_transaction(app.aenqueue_many, change, enqueue, _given(connection)))
    if within is not None:
        return await drive_awaited(_take_async, _in_transaction(app.aenqueue_many, change, enqueue, within))
    task = asyncio.ensure_future(drive_awaited(_take_async, _compensated(app.aenqueue_many, asyncio.sleep, change, enqueue, compensate)))
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    return await asyncio.shield(task)


def _check_ways(transaction: Any, within: Any, compensate: Verb | None) -> None:
    if transaction is not None and within is not None:
        raise InvalidDefinition("give transaction=, which this call enters and commits, or within=, which is the caller's own: not both")
    if transaction is None and within is None and compensate is None:
        raise InvalidDefinition(
            "there is nothing to undo the change with when the job is not accepted: give transaction= or within=, or, where "
            "no transaction can hold both, compensate="
        )


def _given(connection: Any) -> Any:
    if connection is None:
        raise InvalidDefinition(
            "transaction= must give the connection that it is on, and gave None: open it around the call, and give within="
        )
    return connection


# -- what is done ----------------------------------------------------------------------------------------------------


def _in_transaction(enqueue_many: Verb, change: Verb, enqueue: Verb, connection: Any) -> Steps:
    changed = yield partial(change, connection)
    job = _asked((yield partial(enqueue, changed)))
    (handle,) = yield partial(enqueue_many, [job], within=connection)
    return handle  # type: ignore[no-any-return]  # what a step gives is known here alone


def _compensated(enqueue_many: Verb, pause: Verb, change: Verb, enqueue: Verb, compensate: Verb | None) -> Steps:
    assert compensate is not None
    changed = yield partial(change, None)
    try:
        job = _asked((yield partial(enqueue, changed)))
        return (yield from _accepted(partial(enqueue_many, [job]), pause))
    except OutcomeUnknown as error:
        error.add_note("The job may have been accepted, so the change was not compensated: repeat with the same id to know.")
        raise
    except Exception as error:
        yield from _undo(partial(compensate, changed), pause, error)
        raise


def _asked(job: Any) -> NewJob:
    if isinstance(job, NewJob):
        return job
    if hasattr(job, "close") and hasattr(job, "__await__"):
        job.close()  # else Python would say later that nobody awaited it
    if isinstance(job, JobHandle):
        raise InvalidDefinition(
            f"enqueue= has enqueued job {job.id} by itself, outside of any transaction: give definition.new_job(payload) instead"
        )
    raise InvalidDefinition(
        f"enqueue= must give the job that belongs to the change, such as definition.new_job(payload), and gave {shown(job)}"
    )


def _accepted(enqueue: Callable[[], Any], pause: Verb) -> Steps:
    """Enqueue; while the outcome is unknown, again under the same id, which finds the job if it was stored after all."""
    unknown: OutcomeUnknown | None = None
    for seconds in (*PAUSES, None):
        try:
            (handle,) = yield enqueue
        except OutcomeUnknown as error:
            unknown = unknown or error
        except DuplicateJob:
            raise  # ids are looked at before keys, so this job is not there
        except Exception:
            if unknown is None:
                raise
        else:
            return handle  # type: ignore[no-any-return]  # as above
        if seconds is not None:
            yield partial(pause, seconds)
    assert unknown is not None
    raise unknown


def _undo(compensate: Callable[[], Any], pause: Verb, cause: Exception) -> Generator[Callable[[], Any], Any, None]:
    """Compensate; when that cannot be done, say so with ``cause``, which the caller is about to get."""
    failure = ""
    for seconds in (*PAUSES, None):
        try:
            yield compensate
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller must learn why nothing was enqueued
            failure = describe_error(error).partition("\n")[0]
        else:
            return
        if seconds is not None:
            yield partial(pause, seconds)
    told = f"The compensation failed as well, {len(PAUSES) + 1} times, at last with {failure}: the change stands, and has no job."
    cause.add_note(told)
    logger.error("%s The enqueue had failed with %s", told, describe_error(cause).partition("\n")[0])


# -- in which colour -------------------------------------------------------------------------------------------------


def _take(step: Step) -> Any:
    answer = step()
    _refuse_awaitable(answer)
    return answer


async def _take_async(step: Step) -> Any:
    answer = step()
    return await answer if hasattr(type(answer), "__await__") else answer


def _refuse_awaitable(answer: Any) -> None:
    if isinstance(answer, Coroutine):
        answer.close()
        raise InvalidDefinition("change= and compensate= are async functions: await awith_transactional_state_and_enqueue(...) instead")
