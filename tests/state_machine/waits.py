"""The part of the machine that is about due jobs that wait for others: limits and breakers, set, cleared, opened and closed by hand.

What jobs share stands in ``strategies.SHARED``, what code says of them in ``strategies.CODES``; the ends of runs say of the provider what
they like.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from onward.inspection import KnownBreaker
from onward.limit import Limit, LimitKind
from tests.state_machine import strategies as asked
from tests.state_machine.lockstep import Lockstep

LIMITS = (
    Limit(concurrency=1),
    Limit(concurrency=2),
    Limit(concurrency=3, rate="2/10s", burst=1),
    Limit(rate="1/5s"),
    Limit(rate="100/s"),
)
NAMES: dict[LimitKind, tuple[str, ...]] = {"queue": asked.QUEUES, "key": asked.CONCURRENCY_KEYS}
limits = st.sampled_from(LIMITS)
kinds: st.SearchStrategy[LimitKind] = st.sampled_from(["key", "key", "queue"])


class WaitRules(RuleBasedStateMachine):
    """Rules for the machine that has ``together``, ``do`` and ``done``."""

    together: Lockstep
    do: Callable[[str, Any], Any]
    done: int

    @rule(kind=kinds, pick=asked.picks, limit=limits)
    def set_limit(self, kind: LimitKind, pick: int, limit: Limit) -> None:
        name = NAMES[kind][pick % 2]
        self.do("set_limit", lambda store: store.set_limit(kind, name, limit))
        self.done += 1
        self.look_at_what_is_waited_for()

    @rule(kind=kinds, pick=asked.picks)
    def clear_limit(self, kind: LimitKind, pick: int) -> None:
        name = NAMES[kind][pick % 2]
        self.done += self.do("clear_limit", lambda store: store.clear_limit(kind, name))
        self.look_at_what_is_waited_for()

    @rule(limit=limits, queue=st.sampled_from(asked.QUEUES))
    def declare_limit(self, limit: Limit, queue: str) -> None:
        self.do("declare_limits", lambda store: store.declare_limits({queue: limit}))
        self.look_at_what_is_waited_for()

    @rule(key=st.sampled_from(asked.BREAKERS), pause=asked.seconds(5, 30))
    def open_breaker(self, key: str, pause: timedelta) -> None:
        self.do("open_breaker", lambda store: store.open_breaker(key, pause))
        self.done += 1
        self.look_at_what_is_waited_for()

    @rule(key=st.sampled_from(asked.BREAKERS))
    def reset_breaker(self, key: str) -> None:
        known = self.together.each("breakers", lambda store: [_without_id(one) for one in store.breakers([key])])
        self.do("reset_breaker", lambda store: store.reset_breaker(key))
        self.done += len(known)  # nothing is done to one that was never stored
        self.look_at_what_is_waited_for()

    def look_at_what_is_waited_for(self) -> None:
        """As a person sees it; each store makes the id of an alert itself."""
        self.together.each("limits", lambda store: store.limits())
        self.together.each("breakers", lambda store: [_without_id(one) for one in store.breakers()])


def _without_id(known: KnownBreaker) -> KnownBreaker:
    return replace(known, alert_id=None if known.alert_id is None else "an alert")
