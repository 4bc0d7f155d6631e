"""The net under all that lets waiting jobs go on: what nobody else will do is done by a sweep, some keys at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from onward.admission import REASONS, UNCONSTRAINED, Constraint
from onward.breaker import BreakerState, may_try
from onward.drivers.sql.breakers import read_breakers, write_breakers
from onward.drivers.sql.statements import Operation, Statement, as_json
from onward.drivers.sql.waits import let_first, let_next, let_under_limits
from onward.jobs import BlockedBy

KEYS_AT_ONCE = 200
"""Of each reason, in one transaction."""
MOST_PORTIONS = 10
"""Of so many keys, in one sweep: where there are more, the next sweep goes on behind them."""


class Cursors(Struct):
    """Up to which key the last sweep has looked, for each reason."""

    after: dict[BlockedBy, str] = {}


def portions(cursors: Cursors) -> Iterator[list[BlockedBy]]:
    """For which reasons to look at the next keys, time after time, until all were looked at."""
    yield list(REASONS)
    for _ in range(MOST_PORTIONS - 1):
        if not (left := [reason for reason in REASONS if cursors.after.get(reason)]):
            return
        yield left


def recheck(
    cursors: Cursors,
    now: datetime,
    types: Collection[str] = (),
    constraints: Mapping[str, Constraint] | None = None,
    reasons: Sequence[BlockedBy] = REASONS,
) -> Operation[int]:
    """Let those ask again who wait for nothing any more. Says how many. Each call goes on behind the keys of the one before.

    ``constraints`` is what code says of ``types``: a limit may be another one by now, or gone.
    """
    count = 0
    for reason in reasons:
        asked = {"reason": reason, "after": cursors.after.get(reason, ""), "limit": KEYS_AT_ONCE}
        keys = [row[0] for row in (yield Statement("keys_behind", asked))]
        cursors.after[reason] = keys[-1] if len(keys) == KEYS_AT_ONCE else ""
        if not keys:
            continue
        names = as_json(sorted(f"{reason}:{key}" for key in keys))
        ours = {row[0] for row in (yield Statement("hold_keys", {"names": names}))}
        free = [key for key in keys if f"{reason}:{key}" in ours]
        if reason == "serial":
            idle = yield Statement("idle_lines", {"keys": as_json(free)})
            count += yield from let_next([row[0] for row in idle], now)
        elif reason == "limit":
            first = yield Statement("first_types", {"reason": reason, "keys": as_json(free)})
            said = {key: (constraints or {}).get(type_, UNCONSTRAINED).limit for key, type_ in first if type_ in types}
            count += yield from let_under_limits(free, now, said)
        else:
            count += yield from _behind_breakers(free, now)
    return count


def _behind_breakers(keys: Collection[str], now: datetime) -> Operation[int]:
    breakers, alive = yield from read_breakers(keys)
    closed: list[BreakerState] = []
    tried: list[str] = []
    for key in keys:
        state = breakers.get(key, BreakerState(key=key))
        if state.status == "closed" and (state.retry_at is None or state.retry_at > now + state.portion * state.pace.interval):
            closed.append(replace(state, retry_at=now))
        elif may_try(state, key in alive, now):
            tried.append(key)
    yield from write_breakers(closed, now)
    return (yield from let_first("breaker", tried, now))
