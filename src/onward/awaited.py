"""The twin of a verb for code on an event loop, made from the verb itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
R = TypeVar("R")
Arguments = ParamSpec("Arguments")


def awaited(verb: Callable[Concatenate[S, Arguments], R]) -> Callable[Concatenate[S, Arguments], Coroutine[Any, Any, R]]:
    """Make the twin of a method, which itself would keep the loop waiting for the store: it runs in a thread."""

    @wraps(verb)
    async def twin(self: S, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> R:
        from asyncio import to_thread

        return await to_thread(verb, self, *args, **kwargs)

    twin.__name__ = f"a{verb.__name__}"
    twin.__qualname__ = verb.__qualname__.removesuffix(verb.__name__) + twin.__name__
    twin.__doc__ = f"``{verb.__name__}`` for code on an event loop."
    return twin
