"""Alerts as operations: opened once for each cause, and resolved when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from onward.alerts import Alert, NewAlert, breaker_cause, breaker_opened
from onward.breaker import BreakerState
from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json

ALERT_COLUMNS: tuple[str, ...] = tuple(Alert.__struct_fields__)


def open_alert(alert: NewAlert, now: datetime) -> Operation[bool]:
    """Open it. False where one of the same cause is open."""
    return bool((yield Statement("open_alert", msgspec.to_builtins(alert) | {"now": write_instant(now)})))


def resolve_alerts(causes: Sequence[str], now: datetime) -> Operation[int]:
    """Resolve the open alerts of these causes. Says how many there were."""
    if not causes:
        return 0
    return len((yield Statement("resolve_alerts", {"causes": as_json(sorted(causes)), "now": write_instant(now)})))


def open_alerts(causes: Sequence[str]) -> Operation[dict[str, Alert]]:
    """The open alerts of these causes, by cause."""
    rows = yield Statement("open_alerts", {"causes": as_json(sorted(causes))})
    read = [one for row in rows if (one := _read(row)) is not None]
    return {one.cause: one for one in read}


def _read(row: Row) -> Alert | None:
    try:
        return msgspec.convert(dict(zip(ALERT_COLUMNS, row, strict=True)), Alert)
    except msgspec.ValidationError:
        return None


def tell_of_breakers(
    before: Mapping[str, BreakerState], after: Iterable[BreakerState], now: datetime, *, by_hand: bool = False
) -> Operation[None]:
    """Tell of those that have opened, and that those which have closed are so."""
    resolved: list[str] = []
    for state in after:
        was_closed = state.key not in before or before[state.key].status == "closed"
        if state.status != "closed" and was_closed:
            yield from open_alert(breaker_opened(state, by_hand=by_hand), now)
        elif state.status == "closed" and not was_closed:
            resolved.append(breaker_cause(state.key))
    yield from resolve_alerts(resolved, now)
