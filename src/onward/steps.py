"""Steps: a procedure written once, as a generator, for callers whose calls return and for those whose calls are awaited.

It yields what is to be done next, and is sent what that gave; an error is raised where the step was yielded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

S = TypeVar("S")
A = TypeVar("A")
T = TypeVar("T")


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
    """``drive`` where each step is awaited."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await take(step)
            except BaseException as error:  # noqa: BLE001 - as above
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
