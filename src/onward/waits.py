"""``app.breakers`` and ``app.limits``: what a person or a program does to them at run time."""

from __future__ import annotations

from datetime import timedelta

from onward.actions import check_actor
from onward.awaited import awaited
from onward.breaker import BreakerState, parse_pause
from onward.definition import Duration, check_name
from onward.driver import Store
from onward.errors import InvalidDefinition
from onward.inspection import KnownBreaker, KnownLimit
from onward.limit import Limit, LimitState
from onward.spelling import shown
from onward.unique import check_key

DEFAULT_PAUSE = timedelta(minutes=30)


class Breakers:
    """The breakers of a store that have ever counted a failure. Each verb has a twin for code on an event loop, such as ``alist``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> list[KnownBreaker]:
        """All of them, by key."""
        return self._store.breakers()

    def get(self, key: str) -> KnownBreaker:
        """One of them. One that never counted a failure is closed, like every other."""
        key = check_key(key)
        known = self._store.breakers([key])
        return known[0] if known else KnownBreaker(state=BreakerState(key=key))

    def open(self, key: str, pause: Duration = DEFAULT_PAUSE, *, actor: str = "") -> BreakerState:
        """Open it for so long: its jobs wait and spend no try, and then one of them runs as a probe.

        ``actor`` is who does it, for the record (``app.actions``). Raises ``InvalidDefinition`` or ``InvalidTime``.
        """
        return self._store.open_breaker(check_key(key), parse_pause(pause), actor=check_actor(actor))

    def reset(self, key: str, *, actor: str = "") -> BreakerState:
        """Close it: the jobs that wait go on at its pace. Otherwise as ``open``."""
        return self._store.reset_breaker(check_key(key), actor=check_actor(actor))

    alist = awaited(list)  # noqa: A003 - the method is meant
    aget = awaited(get)
    aopen = awaited(open)  # noqa: A003 - as above
    areset = awaited(reset)


class Limits:
    """The limits of queues and of concurrency keys. Each verb has a twin for code on an event loop, such as ``alist``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> list[KnownLimit]:
        """Those of queues, then those of keys that were ever reached or set, by name."""
        return self._store.limits()

    def set(self, limit: Limit, *, queue: str | None = None, key: str | None = None, actor: str = "") -> LimitState:
        """Set the limit of a queue, or of a concurrency key: from now on it counts, and what code says does not.

        ``actor`` is who does it, for the record (``app.actions``). Raises ``InvalidDefinition``.
        """
        if not isinstance(limit, Limit):
            raise InvalidDefinition(f"set takes a Limit, such as Limit(concurrency=5), not {shown(limit)}")
        actor = check_actor(actor)
        if queue is not None and key is None:
            return self._store.set_limit("queue", check_name("queue", queue), limit, actor=actor)
        if key is not None and queue is None:
            return self._store.set_limit("key", check_key(key), limit, actor=actor)
        raise InvalidDefinition("say what the limit is of: queue= or key=, one of them")

    def clear(self, *, queue: str | None = None, key: str | None = None, actor: str = "") -> bool:
        """Forget a limit, so that what code says counts again, if it says anything. False when there was none. Otherwise as ``set``."""
        actor = check_actor(actor)
        if queue is not None and key is None:
            return self._store.clear_limit("queue", check_name("queue", queue), actor=actor)
        if key is not None and queue is None:
            return self._store.clear_limit("key", check_key(key), actor=actor)
        raise InvalidDefinition("say what the limit is of: queue= or key=, one of them")

    alist = awaited(list)  # noqa: A003 - the method is meant
    aset = awaited(set)  # noqa: A003 - as above
    aclear = awaited(clear)
