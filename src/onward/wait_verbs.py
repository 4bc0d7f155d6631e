"""The part of a store's contract that is about breakers and limits: what people do to them, and what code declares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from datetime import timedelta

from onward.breaker import BreakerState
from onward.inspection import KnownBreaker, KnownLimit
from onward.jobs import Job
from onward.limit import Limit, LimitKind, LimitState


class WaitVerbs(ABC):
    """What makes due jobs wait for others, seen and changed by hand."""

    @abstractmethod
    def breakers(self, keys: Collection[str] | None = None) -> list[KnownBreaker]:
        """The breakers of these keys that have ever counted a failure, or all of them, by key."""

    @abstractmethod
    def open_breaker(self, key: str, pause: timedelta, *, actor: str = "") -> BreakerState:
        """Open it for so long, whatever it counted; one that is open stays so for so long from now. Leaves a record of it."""

    @abstractmethod
    def reset_breaker(self, key: str, *, actor: str = "") -> BreakerState:
        """Close it, so that the jobs that wait go on at its pace, and wake workers. Leaves a record of it."""

    @abstractmethod
    def limits(self, queues: Collection[str] | None = None, keys: Collection[str] | None = None) -> list[KnownLimit]:
        """The limits of queues, then those of keys that were ever reached or set, by name: of these, or all where neither is said."""

    @abstractmethod
    def set_limit(self, kind: LimitKind, name: str, limit: Limit, *, actor: str = "") -> LimitState:
        """Set a limit by hand: from this commit on it counts, and what code says does not. Wakes workers. Leaves a record of it."""

    @abstractmethod
    def declare_limits(self, queues: Mapping[str, Limit]) -> None:
        """Store what code says of queues; what a person has set stays."""

    @abstractmethod
    def clear_limit(self, kind: LimitKind, name: str, *, actor: str = "") -> bool:
        """Forget a limit: none holds of a queue then, and of a key the one that code says. False when there was none. Leaves a record."""

    @abstractmethod
    def ahead_of(self, job_id: str) -> Job | None:
        """Read the job of the same serial key that this one waits for: one that runs, or was begun and has not ended; else the first
        that is due and comes before; else a dead letter, which holds up those whose definition says so. None where nobody is.
        """
