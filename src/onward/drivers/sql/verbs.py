"""What people do to breakers and limits, once for all SQL stores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from onward.breaker import BreakerState
from onward.driver import Store
from onward.drivers.sql import breakers, limits, waits
from onward.drivers.sql.statements import Operation
from onward.inspection import KnownBreaker, KnownLimit
from onward.jobs import Job
from onward.limit import Limit, LimitKind, LimitState

T = TypeVar("T")


class VerbsOfWaits(Store):
    """The part of a store that says how the two verbs below come to their rows."""

    @abstractmethod
    def _look_up(self, operation: Callable[[], Operation[T]]) -> T:
        """Run an operation that only reads."""

    @abstractmethod
    def _change(self, operation: Callable[[datetime], Operation[T]]) -> T:
        """Run an operation that writes, in a transaction of its own, and wake workers."""

    @abstractmethod
    def _note(self, operation: Callable[[datetime], Operation[T]]) -> T:
        """Run an operation that writes what no worker waits for, in a transaction of its own."""

    def breakers(self, keys: Collection[str] | None = None) -> list[KnownBreaker]:
        return self._look_up(lambda: breakers.known_breakers(keys))

    def open_breaker(self, key: str, pause: timedelta, *, actor: str = "") -> BreakerState:
        return self._change(lambda now: breakers.open_by_hand(key, pause, actor, now))

    def reset_breaker(self, key: str, *, actor: str = "") -> BreakerState:
        return self._change(lambda now: breakers.close_by_hand(key, actor, now))

    def limits(self, queues: Collection[str] | None = None, keys: Collection[str] | None = None) -> list[KnownLimit]:
        return self._look_up(lambda: limits.known_limits(self.clock.now(), queues, keys))

    def ahead_of(self, job_id: str) -> Job | None:
        return self._look_up(lambda: waits.ahead_of(job_id, self.clock.now()))

    def set_limit(self, kind: LimitKind, name: str, limit: Limit, *, actor: str = "") -> LimitState:
        return self._change(lambda now: limits.set_by_hand(kind, name, limit, actor, now))

    def declare_limits(self, queues: Mapping[str, Limit]) -> None:
        self._change(lambda now: limits.declare(queues, now))

    def clear_limit(self, kind: LimitKind, name: str, *, actor: str = "") -> bool:
        return self._change(lambda now: waits.clear_limit(kind, name, actor, now))
