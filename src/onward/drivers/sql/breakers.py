"""Breakers as they are stored: read, written, and what the ends of runs do to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta

from onward.actions import new_action
from onward.admission import name_of_breaker
from onward.alerts import breaker_cause
from onward.breaker import BreakerState, after_run, closed, opened_by_hand
from onward.drivers.sql import actions
from onward.drivers.sql.alerts import open_alerts, tell_of_breakers
from onward.drivers.sql.rows import read_instant, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.durations import format_duration, parse_duration
from onward.errors import InvalidDefinition, InvalidTime
from onward.inspection import MOST_COUNTED, JobFilter, KnownBreaker
from onward.jobs import BlockedBy
from onward.rate import parse_rate
from onward.turn import Settlement, ending_of


def read_breakers(keys: Collection[str] | None) -> Operation[tuple[dict[str, BreakerState], frozenset[str]]]:
    """Those of these keys that were ever stored, or all; and the keys of those whose probe is running still.

    One that somebody wrote by hand and that makes no sense is left out, and so is closed.
    """
    if keys is None:
        rows = yield Statement("breakers")
    elif keys:
        rows = yield Statement("breaker_states", {"keys": as_json(sorted(keys))})
    else:
        return {}, frozenset()
    read = ((_read(row), bool(row[-1])) for row in rows)
    states = [(state, is_alive) for state, is_alive in read if state is not None]
    return {state.key: state for state, _ in states}, frozenset(state.key for state, is_alive in states if is_alive)


def _read(row: Row) -> BreakerState | None:
    key, status, failures, opened_at, retry_at, probe_id, probe_fence, pause, pace, _ = row
    if not isinstance(key, str) or status not in ("closed", "open", "half_open"):
        return None
    try:
        return BreakerState(
            key=key,
            status=status,
            failures=failures,
            opened_at=None if opened_at is None else read_instant(opened_at),
            retry_at=None if retry_at is None else read_instant(retry_at),
            probe_id=probe_id,
            probe_fence=probe_fence,
            pause=parse_duration(pause),
            pace=parse_rate("pace", pace),
        )
    except (InvalidDefinition, InvalidTime, ValueError, TypeError):
        return None


def write_breakers(states: Iterable[BreakerState], now: datetime) -> Operation[None]:
    """Write them as they are now."""
    rows = [
        (
            *(one.key, one.status, one.failures),
            *(None if at is None else write_instant(at) for at in (one.opened_at, one.retry_at)),
            *(one.probe_id, one.probe_fence, format_duration(one.pause), str(one.pace)),
        )
        for one in states
    ]
    if rows:
        yield Statement("write_breakers", {"rows": as_json(rows), "now": write_instant(now)})


def count_runs(done: Sequence[Settlement], repeated: Sequence[Settlement], now: datetime) -> Operation[None]:
    """Count how these runs ended at their breakers, in their order.

    ``repeated`` are those that an earlier try of the same turn, or the handler's own transaction, had stored before: a failure was counted
    then, and a success may not have been.
    """
    counted = [one for one in done if _speaks(one)] + [one for one in repeated if _speaks(one) and ending_of(one) == "success"]
    if not counted:
        return
    keys = sorted({one.claim.job.breaker for one in counted if one.claim.job.breaker is not None})
    before, _ = yield from read_breakers(keys)
    if all(ending_of(one) == "success" for one in counted) and all(_is_quiet(one) for one in before.values()):
        return
    yield Statement("await_keys", {"names": as_json([name_of_breaker(key) for key in keys])})
    before, _ = yield from read_breakers(keys)
    after = {key: before.get(key, BreakerState(key=key)) for key in keys}
    for one in counted:
        key = one.claim.job.breaker
        if key is not None:
            after[key] = after_run(after[key], one.claim.key, ending_of(one), one.breaker, now)
    changed = [state for key, state in after.items() if state != before.get(key, BreakerState(key=key))]
    yield from write_breakers(changed, now)
    yield from tell_of_breakers(before, changed, now)


def _speaks(settlement: Settlement) -> bool:
    return settlement.claim.job.breaker is not None


def _is_quiet(state: BreakerState) -> bool:
    return state.status == "closed" and state.failures == 0


def known_breakers(keys: Collection[str] | None) -> Operation[list[KnownBreaker]]:
    """As a person sees them, by key."""
    states, _ = yield from read_breakers(keys)
    if not states:
        return []
    waiting = yield from count_behind("breaker", states)
    alerts = yield from open_alerts([breaker_cause(key) for key in states])
    ids = {cause: alert.id for cause, alert in alerts.items()}
    return [
        KnownBreaker(state=state, waiting=waiting.get(key, 0), alert_id=ids.get(breaker_cause(key)))
        for key, state in sorted(states.items())
    ]


def count_behind(reason: BlockedBy, keys: Collection[str]) -> Operation[dict[str, int]]:
    """How many jobs wait for each of these keys, for one reason; none is left out."""
    rows = yield Statement("count_behind", {"reason": reason, "keys": as_json(sorted(keys)), "most": MOST_COUNTED})
    return dict(rows)


def open_by_hand(key: str, pause: timedelta, actor: str, now: datetime) -> Operation[BreakerState]:
    """Open it for so long."""
    return (yield from _change(key, "open_breaker", actor, now, lambda state: opened_by_hand(state, pause, now)))


def close_by_hand(key: str, actor: str, now: datetime) -> Operation[BreakerState]:
    """Close it; those that wait behind it go on at its pace. One that was never stored is closed, and stays as unknown as it was."""
    if not (yield from read_breakers([key]))[0]:
        yield from actions.note(new_action("reset_breaker", JobFilter(key=key), actor=actor), now, is_done=False)
        return BreakerState(key=key)
    return (yield from _change(key, "reset_breaker", actor, now, lambda state: closed(state, None, now)))


def _change(key: str, verb: str, actor: str, now: datetime, change: Callable[[BreakerState], BreakerState]) -> Operation[BreakerState]:
    yield Statement("await_keys", {"names": as_json([name_of_breaker(key)])})
    before, _ = yield from read_breakers([key])
    after = change(before.get(key, BreakerState(key=key)))
    yield from write_breakers([after], now)
    yield from tell_of_breakers(before, [after], now, by_hand=True)
    yield from actions.note(new_action(verb, JobFilter(key=key), actor=actor), now, is_done=True)
    return after
