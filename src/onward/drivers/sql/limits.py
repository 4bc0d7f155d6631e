"""Limits as they are stored: read, written, set by a person."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from msgspec.structs import replace

from onward.actions import new_action
from onward.admission import name_of_limit
from onward.drivers.sql import actions
from onward.drivers.sql.breakers import count_behind
from onward.drivers.sql.rows import read_instant, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.errors import InvalidDefinition
from onward.inspection import MOST_COUNTED, JobFilter, KnownLimit
from onward.limit import Limit, LimitKind, LimitState


def read_limits(kind: LimitKind, names: Collection[str] | None) -> Operation[dict[str, LimitState]]:
    """Those of these names, or all of a kind. One that somebody wrote by hand and that makes no sense limits nothing."""
    if names is not None and not names:
        return {}
    if names is None:
        rows = yield Statement("limits", {"kind": kind})
    else:
        rows = yield Statement("limit_states", {"kind": kind, "names": as_json(sorted(names))})
    states = (_read(row) for row in rows)
    return {state.name: state for state in states if state is not None}


def _read(row: Row) -> LimitState | None:
    kind, name, concurrency, rate, burst, is_by_hand, spent_until, check_at = row
    if not isinstance(name, str):
        return None
    try:
        return LimitState(
            kind=kind,
            name=name,
            limit=Limit(concurrency, rate, burst),
            is_by_hand=is_by_hand != 0,
            spent_until=None if spent_until is None else read_instant(spent_until),
            check_at=None if check_at is None else read_instant(check_at),
        )
    except (InvalidDefinition, ValueError, TypeError):
        return None


def write_limits(states: Iterable[LimitState], now: datetime) -> Operation[None]:
    """Write them as they are now."""
    rows = [
        (
            *(one.kind, one.name, one.limit.concurrency, one.limit.rate, one.limit.burst, int(one.is_by_hand)),
            *(None if at is None else write_instant(at) for at in (one.spent_until, one.check_at)),
        )
        for one in states
    ]
    if rows:
        yield Statement("write_limits", {"rows": as_json(rows), "now": write_instant(now)})


def known_limits(
    now: datetime, of_queues: Collection[str] | None = None, of_keys: Collection[str] | None = None
) -> Operation[list[KnownLimit]]:
    """As a person sees them: of queues, then of keys, by name. Of these, or all where neither is said."""
    is_all = of_queues is None and of_keys is None
    queues = yield from read_limits("queue", None if is_all else of_queues or ())
    keys = yield from read_limits("key", None if is_all else of_keys or ())
    running: dict[LimitKind, dict[str, int]] = {"queue": {}, "key": {}}
    waiting: dict[LimitKind, dict[str, int]] = {"queue": {}, "key": {}}
    if queues:
        running["queue"] = dict((yield Statement("running_of_queues", {"names": as_json(sorted(queues))})))
        waiting["queue"] = dict(
            (yield Statement("due_of_queues", {"names": as_json(sorted(queues)), "most": MOST_COUNTED, "now": write_instant(now)}))
        )
    if keys:
        running["key"] = dict((yield Statement("running_of_keys", {"keys": as_json(sorted(keys))})))
        waiting["key"] = yield from count_behind("limit", keys)
    return [
        KnownLimit(state=state, running=running[state.kind].get(name, 0), waiting=waiting[state.kind].get(name, 0))
        for states in (queues, keys)
        for name, state in sorted(states.items())
    ]


def set_by_hand(kind: LimitKind, name: str, limit: Limit, actor: str, now: datetime) -> Operation[LimitState]:
    """Set it; what was spent of an earlier rate stays spent."""
    yield Statement("await_keys", {"names": as_json([name_of_limit(kind, name)])})
    before = (yield from read_limits(kind, [name])).get(name)
    state = LimitState(kind=kind, name=name, limit=limit, is_by_hand=True)
    if before is not None:
        state = replace(before, limit=limit, is_by_hand=True)
    # Whoever waits looks anew.
    state = replace(state, check_at=now if kind == "key" else None)
    yield from write_limits([state], now)
    yield from actions.note(new_action("set_limit", _named(kind, name), actor=actor), now, is_done=True)
    return state


def declare(queues: Mapping[str, Limit], now: datetime) -> Operation[None]:
    """Store what code says of queues; what a person has set stays."""
    if not queues:
        return
    # Who claims under a limit writes down what it has spent, and nothing of a limit that is changed meanwhile may come back by that.
    yield Statement("await_keys", {"names": as_json(sorted(name_of_limit("queue", name) for name in queues))})
    before = yield from read_limits("queue", queues)
    said = {name: limit for name, limit in queues.items() if name not in before or not before[name].is_by_hand}
    changed = []
    for name, limit in said.items():
        state = before.get(name)
        if state is None or state.limit != limit:
            spent = None if state is None else state.spent_until
            changed.append(LimitState(kind="queue", name=name, limit=limit, spent_until=spent))
    yield from write_limits(changed, now)


def clear(kind: LimitKind, name: str, actor: str, now: datetime) -> Operation[bool]:
    """Forget it."""
    yield Statement("await_keys", {"names": as_json([name_of_limit(kind, name)])})
    was_there = bool((yield Statement("delete_limit", {"kind": kind, "name": name})))
    yield from actions.note(new_action("clear_limit", _named(kind, name), actor=actor), now, is_done=was_there)
    return was_there


def _named(kind: LimitKind, name: str) -> JobFilter:
    return JobFilter(queues=(name,)) if kind == "queue" else JobFilter(key=name)
