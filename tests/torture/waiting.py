"""What waits for others: jobs that share a limit, a place in a line, or a breaker whose provider is away every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from onward import Breaker, JobContext, Limit, TransientJobError
from tests.torture.history import steady
from tests.torture.notes import note

AT_ONCE = 2
"""So many jobs of a concurrency key may run."""
KEYS = 2
"""Of each kind."""
EVERY, AWAY = 5.0, 2.0
"""Seconds from one outage of a provider to the next, and how long each lasts."""


def limited(number: int, ctx: JobContext) -> None:
    note("started", ctx)
    time.sleep(0.1 + 0.05 * (number % 5))
    note("ended", ctx)


def in_line(number: int, ctx: JobContext) -> None:
    """A fifth is not good at its first try, and keeps its place meanwhile."""
    note("started", ctx)
    time.sleep(0.02 * (number % 5))
    if number % 5 == 0 and ctx.attempt == 1:
        raise TransientJobError("not at the first try")
    note("ended", ctx)


def provided(number: int, ctx: JobContext) -> None:
    """Fails for as long as its provider is away, for all processes at the same time."""
    note("started", ctx)
    time.sleep(0.02 * (number % 5))
    if (steady() + 2 * (number % KEYS)) % EVERY < AWAY:
        raise TransientJobError("the provider is away")
    note("ended", ctx)


RULES: dict[Callable[..., Any], dict[str, Any]] = {
    limited: {"concurrency_key": lambda number: f"limited-{number % KEYS}", "limit": Limit(concurrency=AT_ONCE)},
    in_line: {"serial_key": lambda number: f"line-{number % KEYS}"},
    provided: {"breaker": Breaker(lambda number: f"provider-{number % KEYS}", threshold=2, pause=timedelta(seconds=0.5))},
}
TYPES = tuple(handler.__name__ for handler in RULES)
