"""Alerts as operations: opened once for each cause, and resolved when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from onward.alerts import Alert, NewAlert, breaker_cause, breaker_opened
from onward.breaker import BreakerState
from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.errors import AlertNotFound
from onward.outcome import has_form, storable

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
    return {one.cause: one for one in read_alerts(rows)}


def alerts(is_open: bool | None, limit: int, before: str | None) -> Operation[list[Alert]]:
    """Read a page, newest first. A row that cannot be read was written by hand, and is left out."""
    asked = {"is_open": None if is_open is None else int(is_open), "limit": limit, "before": before}
    return read_alerts((yield Statement("alerts", asked)))


def alert(alert_id: str) -> Operation[Alert]:
    """Read one. Raises ``AlertNotFound``."""
    rows = (yield Statement("alert", {"id": alert_id})) if has_form(alert_id) else []
    read = read_alerts(rows)
    if not read:
        raise AlertNotFound(storable(alert_id))
    return read[0]


def acknowledge(alert_id: str, actor: str, now: datetime) -> Operation[Alert]:
    """Write down who has seen it first. Raises ``AlertNotFound``."""
    if has_form(alert_id):
        yield Statement("acknowledge_alert", {"id": alert_id, "actor": actor, "now": write_instant(now)})
    return (yield from alert(alert_id))


def prune(kept_for: timedelta | None, limit: int, now: datetime) -> Operation[int]:
    """Delete at most ``limit`` that have been over for longer, the oldest first. Says how many."""
    if kept_for is None:
        return 0
    return len((yield Statement("prune_alerts", {"before": write_instant(now - kept_for), "limit": limit})))


def read_alerts(rows: Iterable[Row]) -> list[Alert]:
    """Those of these rows that can be read."""
    return [one for row in rows if (one := _read(row)) is not None]


def _read(row: Row) -> Alert | None:
    try:
        alert = msgspec.convert(dict(zip(ALERT_COLUMNS, row, strict=True)), Alert)
    except msgspec.ValidationError:
        return None
    instants = (alert.opened_at, alert.acknowledged_at, alert.resolved_at)
    return alert if all(at is None or at.tzinfo is not None for at in instants) else None


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
