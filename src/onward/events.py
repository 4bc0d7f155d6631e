"""What happened, as values at one seam. Logs, and every later subscriber, are callables that take an ``Event``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

logger = logging.getLogger("onward")

EventName: TypeAlias = Literal[
    "queued", "claimed", "completed", "snoozed", "released", "cancelled", "failed", "reclaimed", "dead_lettered", "lease_lost"
]


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened to one job. Carries no payload."""

    event: EventName
    """``failed`` is a try that failed and will be repeated; ``reclaimed`` a job taken back from a worker that is gone."""
    job_id: str
    job_type: str
    queue: str = ""
    worker_id: str | None = None
    """The lease owner."""
    attempts: int = 0
    priority: int = 0
    duration_ms: float | None = None
    """How long the handler ran, to a microsecond."""
    error: str | None = None
    correlation_id: str | None = None
    committed: bool = True
    """False for a job that joined a caller's transaction: it is queued when that commits."""


Subscriber: TypeAlias = Callable[[Event], None]
"""One that has a method ``together`` is given what happened in one turn by that, as a sequence."""


class ByName:
    """A subscriber that hands each event to those who asked for its name, in order, and each apart from the others."""

    def __init__(self, functions: Mapping[EventName, Sequence[Subscriber]]) -> None:
        self._functions = functions

    def __call__(self, event: Event) -> None:
        for function in self._functions.get(event.event, ()):
            _hand_over(function, event, event)


class Events:
    """Hands each event to every subscriber. A subscriber's error is logged and changes nothing."""

    def __init__(self, subscribers: Iterable[Subscriber] = ()) -> None:
        self._subscribers = list(subscribers)

    def copy(self) -> Events:
        """Those that are subscribed by now, without those that come later."""
        return Events(self._subscribers)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    @property
    def has_subscribers(self) -> bool:
        """False when building an event would be for nobody."""
        return bool(self._subscribers)

    def emit(self, event: Event) -> None:
        self.emit_all([event])

    def emit_all(self, events: Sequence[Event]) -> None:
        """Hand over what happened at about the same time, in order."""
        if not events:
            return
        for subscriber in self._subscribers:
            together = getattr(subscriber, "together", None)
            if together is not None:
                _hand_over(together, events, events[0])
                continue
            for event in events:
                _hand_over(subscriber, event, event)


def _hand_over(function: Callable[[Any], object], what: Any, event: Event) -> None:
    try:
        function(what)
    except KeyboardInterrupt:
        raise
    except BaseException:  # also what would end the program: it must not end a turn, whose outcomes are stored already
        logger.exception("a subscriber failed on %s of job %s", event.event, event.job_id)


def correlation_id(metadata: str, job_id: str) -> str:
    """What a job and all that it leads to share: the one in its metadata, else its own id. Damaged metadata has none."""
    if '"correlation_id"' not in metadata:
        return job_id
    try:
        return str(msgspec.json.decode(metadata).get("correlation_id") or job_id)
    except (msgspec.MsgspecError, ValueError, RecursionError, AttributeError):
        return job_id
