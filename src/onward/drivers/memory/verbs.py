"""The verbs of people for breakers and limits, apart from the store's others for its length."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta

from onward.breaker import BreakerState
from onward.driver import Store
from onward.drivers.memory import limited
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.waits import ahead_of
from onward.inspection import KnownBreaker, KnownLimit
from onward.jobs import Job
from onward.limit import Limit, LimitKind, LimitState


class VerbsOfWaits(Store):
    """The part of the store that only people use."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Tables]: ...

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Tables]: ...

    def breakers(self, keys: Collection[str] | None = None) -> list[KnownBreaker]:
        with self._reading() as tables:
            return limited.known_breakers(tables, keys)

    def open_breaker(self, key: str, pause: timedelta, *, actor: str = "") -> BreakerState:
        with self._writing() as tables:
            return limited.open_breaker(tables, key, pause, actor, self.clock.now())

    def reset_breaker(self, key: str, *, actor: str = "") -> BreakerState:
        with self._writing() as tables:
            state = limited.reset_breaker(tables, key, actor, self.clock.now())
        self.wake()
        return state

    def limits(self, queues: Collection[str] | None = None, keys: Collection[str] | None = None) -> list[KnownLimit]:
        with self._reading() as tables:
            known = limited.known_limits(tables, self.clock.now())
        asked = {"queue": queues or (), "key": keys or ()}
        return known if queues is None and keys is None else [one for one in known if one.state.name in asked[one.state.kind]]

    def ahead_of(self, job_id: str) -> Job | None:
        with self._reading() as tables:
            return ahead_of(tables, job_id, self.clock.now())

    def set_limit(self, kind: LimitKind, name: str, limit: Limit, *, actor: str = "") -> LimitState:
        with self._writing() as tables:
            state = limited.set_limit(tables, kind, name, limit, actor, self.clock.now())
        self.wake()
        return state

    def declare_limits(self, queues: Mapping[str, Limit]) -> None:
        with self._writing() as tables:
            limited.declare_limits(tables, queues, self.clock.now())
        self.wake()

    def clear_limit(self, kind: LimitKind, name: str, *, actor: str = "") -> bool:
        with self._writing() as tables:
            was_there = limited.clear_limit(tables, kind, name, actor, self.clock.now())
        self.wake()
        return was_there
