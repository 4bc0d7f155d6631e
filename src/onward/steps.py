"""Steps: a procedure written once, as a generator, for callers whose calls return and for those whose calls are awaited.

It yields what is to be done next, and is sent what that gave; an error is raised where the step was yielded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from asyncio import Future

S = TypeVar("S")
A = TypeVar("A")
T = TypeVar("T")
UNDO_WITHIN = 5.0
"""Seconds for what is left to do after a cancellation: mostly to undo what the caller's transaction must not keep."""


def drive(take: Callable[[S], A], steps: Generator[S, A, T]) -> T:
    """Take the steps to their end, and give what they return."""
    try:
        step = next(steps)
        while True:
            try:
                answer = take(step)
            except BaseException as error:  # noqa: BLE001 - handed on: the steps decide what an error means
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_awaited(take: Callable[[S], Awaitable[A]], steps: Generator[S, A, T]) -> T:
    """``drive`` where each step is awaited. After a cancellation, what the steps still want is done, for ``UNDO_WITHIN`` seconds."""
    return await _go_on(take, steps, lambda: next(steps))


async def _go_on(
    take: Callable[[S], Awaitable[A]], steps: Generator[S, A, T], first: Callable[[], S], *, is_undisturbed: bool = False
) -> T:
    """Take the steps to their end, from the one that ``first`` gives."""
    from asyncio import CancelledError, ensure_future

    try:
        step = first()
        while True:
            try:
                answer = await take(step)
            except BaseException as error:
                if isinstance(error, CancelledError) and not is_undisturbed:
                    await _undisturbed(ensure_future(_go_on(take, steps, partial(steps.throw, error), is_undisturbed=True)))
                    raise
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def _undisturbed(rest: Future[T]) -> None:
    """Wait for a task of its own, which is not cancelled with the caller: some, such as anyio, cancel again at every ``await``."""
    from asyncio import CancelledError, get_running_loop, wait

    clock = get_running_loop().time
    until = clock() + UNDO_WITHIN
    while not rest.done() and clock() < until:
        try:
            await wait([rest], timeout=until - clock())
        except CancelledError:
            continue
    rest.cancel()
    if rest.done() and not rest.cancelled():
        rest.result()
