"""Which due jobs may begin: the rules of breakers, serial order and limits over one claim's candidates, the same in every store.

A store picks due rows by its index. If any has a breaker, a serial key or a concurrency key, it reads what stands at these keys, asks
``admit``, and writes what comes back, all in one transaction. What is refused gets ``blocked_by`` and spends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from onward.breaker import BreakerState, ask, may_try
from onward.jobs import BlockedBy
from onward.limit import Limit, LimitKind, LimitState
from onward.rate import Rate

REASONS: tuple[BlockedBy, ...] = ("breaker", "limit", "serial")
"""Why a job waits for others."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A due row, one without keys included: it is let whenever there is room."""

    id: str
    type: str
    fence: int
    """As it will be once it is claimed."""
    breaker: str | None = None
    serial_key: str | None = None
    concurrency_key: str | None = None


class Constraint(Struct, frozen=True):
    """What a worker's code says of the jobs of one type."""

    limit: Limit | None = None
    """Of their concurrency key, unless a person has set another."""
    stops_at_dead_letter: bool = False
    """Jobs wait behind a dead-lettered one of the same serial key."""
    pace: Rate | None = None
    """At which those go on that waited behind their breaker; None where they have none."""


UNCONSTRAINED = Constraint()


class SerialLine(Struct, frozen=True):
    """What stands at a serial key, seen by one candidate."""

    is_behind: bool
    """Another job of the key is running, or was begun and has not ended, or is due and comes before."""
    has_dead_letter: bool = False


class Standing(Struct, frozen=True, kw_only=True):
    """What stands at the keys of the candidates."""

    breakers: Mapping[str, BreakerState] = {}
    """Those that were ever stored."""
    alive_probes: frozenset[str] = frozenset()
    """The breakers whose probe is running still."""
    limits: Mapping[str, LimitState] = {}
    """Those of keys that were ever stored."""
    running: Mapping[str, int] = {}
    """How many jobs of a concurrency key run."""
    lines: Mapping[str, SerialLine] = {}
    """By the candidate's id."""
    held: frozenset[str] = frozenset()
    """Breakers and keys that another claim holds in this moment: their jobs are passed over, neither let nor refused."""


class Admitted(Struct, frozen=True, kw_only=True):
    """What became of the candidates, and of what stands at their keys."""

    let: tuple[str, ...] = ()
    left: int = 0
    """How many were not looked at, because there is no room for more."""
    refused: Mapping[BlockedBy, tuple[str, ...]] = {}
    passed_over: tuple[str, ...] = ()
    breakers: tuple[BreakerState, ...] = ()
    """Changed."""
    limits: tuple[LimitState, ...] = ()
    """Changed, or there for the first time."""
    free_breakers: tuple[str, ...] = ()
    free_limits: tuple[str, ...] = ()
    """Keys that one asked for who was refused for something else, and that have room still: the next who waits for them may ask."""

    @property
    def aside(self) -> list[str]:
        """All that were refused."""
        return [id_ for ids in self.refused.values() for id_ in ids]


def admit(
    candidates: Sequence[Candidate], standing: Standing, constraints: Mapping[str, Constraint], now: datetime, *, room: int
) -> Admitted:
    """Say which of the candidates may begin, ``room`` at most: the first, in their order, that breaker, line and limit let through."""
    return _Admission(standing, constraints, now).of(candidates, room)


class _Admission:
    def __init__(self, standing: Standing, constraints: Mapping[str, Constraint], now: datetime) -> None:
        self._standing = standing
        self._constraints = constraints
        self._now = now
        self._breakers = dict(standing.breakers)
        self._probed: set[str] = set()
        self._paced: set[str] = set()
        self._limits: dict[str, LimitState] = {}
        self._begun: dict[str, int] = {}
        self._over_limit: set[str] = set()
        self._lines_taken: set[str] = set()
        self._left_breakers: set[str] = set()
        self._left_limits: dict[str, Candidate] = {}

    def of(self, candidates: Sequence[Candidate], room: int) -> Admitted:
        let: list[str] = []
        passed_over: list[str] = []
        refused: dict[BlockedBy, list[str]] = {}
        left = 0
        for place, one in enumerate(candidates):
            if len(let) >= room:
                left = len(candidates) - place
                break
            if not self._standing.held.isdisjoint(keys_of(one)):
                passed_over.append(one.id)
            elif (reason := self._objection(one)) is None:
                self._begin(one)
                let.append(one.id)
            else:
                refused.setdefault(reason, []).append(one.id)
                if reason != "breaker" and one.breaker is not None:
                    self._left_breakers.add(one.breaker)
                if reason != "limit" and one.concurrency_key is not None:
                    self._left_limits.setdefault(one.concurrency_key, one)
                if reason == "limit" and one.concurrency_key is not None:
                    self._over_limit.add(one.concurrency_key)
        written = [self._written(key) for key in sorted(self._limits)]
        return Admitted(
            let=tuple(let),
            left=left,
            refused={reason: tuple(ids) for reason, ids in refused.items()},
            passed_over=tuple(passed_over),
            breakers=tuple(self._breakers[key] for key in sorted(self._probed | self._paced)),
            limits=tuple(state for state in written if state != self._standing.limits.get(state.name)),
            free_breakers=tuple(key for key in sorted(self._left_breakers) if self._may_try(key)),
            free_limits=tuple(key for key, one in sorted(self._left_limits.items()) if self._is_free(one, key)),
        )

    def _objection(self, one: Candidate) -> BlockedBy | None:
        if one.breaker is not None and not self._is_let_by_breaker(one, one.breaker):
            return "breaker"
        if one.serial_key is not None and not self._is_next_in_line(one, one.serial_key):
            return "serial"
        if one.concurrency_key is not None and not self._has_room(one, one.concurrency_key):
            return "limit"
        return None

    def _is_let_by_breaker(self, one: Candidate, key: str) -> bool:
        state = self._breakers.get(key)
        if state is None or ask(state, (one.id, one.fence), self._is_probe_alive(key), self._now).is_let:
            return True
        pace = self._constraints.get(one.type, UNCONSTRAINED).pace
        if pace not in (None, state.pace) and key not in self._paced:  # who opened it by hand did not know it
            self._breakers[key] = replace(state, pace=pace)
            self._paced.add(key)
        return False

    def _is_probe_alive(self, key: str) -> bool:
        return key in self._probed or key in self._standing.alive_probes

    def _may_try(self, key: str) -> bool:
        state = self._breakers.get(key)
        return state is not None and may_try(state, self._is_probe_alive(key), self._now)

    def _is_free(self, one: Candidate, key: str) -> bool:
        state = self._limit(one, key)
        begun = self._begun.get(key, 0)
        return state is None or state.room(self._standing.running.get(key, 0), self._now) > begun

    def _is_next_in_line(self, one: Candidate, key: str) -> bool:
        line = self._standing.lines.get(one.id, SerialLine(False))
        stops = one.type in self._constraints and self._constraints[one.type].stops_at_dead_letter
        return not (key in self._lines_taken or line.is_behind or (stops and line.has_dead_letter))

    def _has_room(self, one: Candidate, key: str) -> bool:
        state = self._limit(one, key)
        if state is None:
            return True
        # Kept also where it refuses: the row says how much is free later, and when.
        self._limits.setdefault(key, state)
        begun = self._begun.get(key, 0)
        return state.room(self._standing.running.get(key, 0), self._now) > begun

    def _limit(self, one: Candidate, key: str) -> LimitState | None:
        stored = self._limits.get(key)
        if stored is None and (found := self._standing.limits.get(key)) is not None:
            stored = found.now(self._now)
        constraint = self._constraints.get(one.type)
        said = None if constraint is None else constraint.limit
        if stored is not None and (stored.is_by_hand or said == stored.limit):
            return stored
        if said is None:
            return None
        if stored is None:
            return LimitState(kind="key", name=key, limit=said)
        return replace(stored, limit=said)

    def _begin(self, one: Candidate) -> None:
        if one.breaker is not None and (state := self._breakers.get(one.breaker)) is not None:
            after = ask(state, (one.id, one.fence), self._is_probe_alive(one.breaker), self._now).state
            if after is not state:
                self._breakers[one.breaker] = after
                self._probed.add(one.breaker)
        if one.serial_key is not None:
            self._lines_taken.add(one.serial_key)
        if one.concurrency_key is not None:
            self._begun[one.concurrency_key] = self._begun.get(one.concurrency_key, 0) + 1

    def _written(self, key: str) -> LimitState:
        begun = self._begun.get(key, 0)
        state = self._limits[key].taken(begun, self._now)
        running = self._standing.running.get(key, 0) + begun
        return replace(state, check_at=state.next_check(running, self._now)) if key in self._over_limit else state


def as_said(stored: LimitState, key: str, said: Mapping[str, Limit | None]) -> LimitState | None:
    """A stored limit as the code says it by now, where it says anything of the key. None where it says that there is none any more."""
    if stored.is_by_hand or key not in said:
        return stored
    limit = said[key]
    return None if limit is None else replace(stored, limit=limit)


def keys_of(one: Candidate) -> list[str]:
    """The names under which a store holds what it reads for this row, so that no two claims decide over it at once."""
    named = ((name_of_breaker, one.breaker), (name_of_line, one.serial_key), (name_of_key, one.concurrency_key))
    return [name_of(key) for name_of, key in named if key is not None]


# The names under which a store holds what is judged by, for whoever judges and whoever changes it. Postgres locks by what stands before
# the colon, then by the rest; the order of all locks is written down in docs/explanation/internals.md.


def name_of_breaker(key: str) -> str:
    """Of a breaker."""
    return f"breaker:{key}"


def name_of_line(serial_key: str) -> str:
    """Of the jobs that share a serial key."""
    return f"serial:{serial_key}"


def name_of_key(concurrency_key: str) -> str:
    """Of the limit of a concurrency key."""
    return f"limit:{concurrency_key}"


def name_of_limit(kind: LimitKind, name: str) -> str:
    """Of a limit of either kind."""
    return f"queue:{name}" if kind == "queue" else name_of_key(name)
