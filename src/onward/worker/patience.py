"""How long a handler is waited for that should have ended. Instants are seconds of the monotonic clock."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

KILL_AFTER = 1.0
"""Seconds that an isolated handler gets beyond its time limit to end by itself: it knew of the limit all the time."""


class Why(Enum):
    """What told the handler to end."""

    LIMIT = "limit"
    CANCELLED = "cancelled"


class End(NamedTuple):
    """When nobody waits for a handler any more."""

    at: float
    why: Why


def end_of_patience(*, due_to_end_at: float | None, cancelled_at: float | None, is_apart: bool, grace: float) -> End | None:
    """Say when a handler is given up; None while nothing asks for its end. Of two reasons the one that comes first counts.

    ``due_to_end_at`` is its time limit, ``cancelled_at`` when it was told that a person had asked for its end, ``grace`` is in seconds.
    ``is_apart`` says that it has a process of its own, which can be killed.
    """
    ends = []
    if cancelled_at is not None:
        ends.append(End(cancelled_at + grace, Why.CANCELLED))
    if due_to_end_at is not None:
        ends.append(End(due_to_end_at + (min(grace, KILL_AFTER) if is_apart else grace), Why.LIMIT))
    return min(ends, key=lambda end: end.at, default=None)
