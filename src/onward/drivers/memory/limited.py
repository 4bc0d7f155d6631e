"""What people do to breakers and limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from onward.alerts import breaker_cause
from onward.breaker import BreakerState, closed, opened_by_hand
from onward.drivers.memory import actions
from onward.drivers.memory.alerts import alert_of
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.waits import let_under_limits, put_breaker, running_of_keys, running_of_queue, waiting_for
from onward.inspection import MOST_COUNTED, JobFilter, KnownBreaker, KnownLimit
from onward.limit import Limit, LimitKind, LimitState


def known_breakers(tables: Tables, keys: Collection[str] | None) -> list[KnownBreaker]:
    """As a person sees them, by key."""
    known = []
    for key, state in sorted(tables.breakers.items()):
        if keys is None or key in keys:
            alert = alert_of(tables, breaker_cause(key))
            waiting = min(waiting_for(tables, "breaker", key), MOST_COUNTED)
            known.append(KnownBreaker(state=state, waiting=waiting, alert_id=None if alert is None else alert.id))
    return known


def open_breaker(tables: Tables, key: str, pause: timedelta, actor: str, now: datetime) -> BreakerState:
    """Open it for so long."""
    before = tables.breakers.get(key, BreakerState(key=key))
    after = opened_by_hand(before, pause, now)
    put_breaker(tables, before, after, now, by_hand=True)
    actions.note(tables, "open_breaker", JobFilter(key=key), actor, now, is_done=True)
    return after


def reset_breaker(tables: Tables, key: str, actor: str, now: datetime) -> BreakerState:
    """Close it; those that wait behind it go on at its pace. One that was never stored is closed, and stays as unknown as it was."""
    before = tables.breakers.get(key)
    if before is None:
        actions.note(tables, "reset_breaker", JobFilter(key=key), actor, now, is_done=False)
        return BreakerState(key=key)
    after = closed(before, None, now)
    put_breaker(tables, before, after, now, by_hand=True)
    actions.note(tables, "reset_breaker", JobFilter(key=key), actor, now, is_done=True)
    return after


def known_limits(tables: Tables, now: datetime) -> list[KnownLimit]:
    """As a person sees them: of queues, then of keys, by name."""
    running = running_of_keys(tables)
    known = []
    for (kind, name), state in sorted(tables.limits.items(), key=lambda one: (one[0][0] != "queue", one[0][1])):
        if kind == "queue":
            waits = sum(1 for job_id in tables.waiting if (job := tables.jobs[job_id]).queue == name and job.scheduled_at <= now)
            known.append(KnownLimit(state=state, running=running_of_queue(tables, name), waiting=min(waits, MOST_COUNTED)))
        else:
            waiting = min(waiting_for(tables, "limit", name), MOST_COUNTED)
            known.append(KnownLimit(state=state, running=running.get(name, 0), waiting=waiting))
    return known


def set_limit(tables: Tables, kind: LimitKind, name: str, limit: Limit, actor: str, now: datetime) -> LimitState:
    """Set it; what was spent of an earlier rate stays spent."""
    before = tables.limits.get((kind, name), LimitState(kind=kind, name=name, limit=limit))
    state = replace(before, limit=limit, is_by_hand=True, check_at=now if kind == "key" else None)
    tables.put_limit(state, now)
    actions.note(tables, "set_limit", _named(kind, name), actor, now, is_done=True)
    return state


def declare_limits(tables: Tables, queues: Mapping[str, Limit], now: datetime) -> None:
    """Store what code says of queues; what a person has set stays."""
    for name, limit in queues.items():
        before = tables.limits.get(("queue", name))
        if before is None or not (before.is_by_hand or before.limit == limit):
            spent = None if before is None else before.spent_until
            tables.put_limit(LimitState(kind="queue", name=name, limit=limit, spent_until=spent), now)


def clear_limit(tables: Tables, kind: LimitKind, name: str, actor: str, now: datetime) -> bool:
    """Forget it, and let those ask again that wait for it."""
    was_there = tables.remove_limit(kind, name)
    if was_there and kind == "key":
        let_under_limits(tables, [name], now)
    actions.note(tables, "clear_limit", _named(kind, name), actor, now, is_done=was_there)
    return was_there


def _named(kind: LimitKind, name: str) -> JobFilter:
    return JobFilter(queues=(name,)) if kind == "queue" else JobFilter(key=name)
