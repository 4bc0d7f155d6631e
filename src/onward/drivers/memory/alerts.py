"""Alerts of a store in memory: one is open for each cause at most."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from onward.alerts import Alert, NewAlert
from onward.drivers.memory.tables import Tables


def alert_of(tables: Tables, cause: str) -> Alert | None:
    """The alert of this cause that is open, if one is."""
    return next((one for one in tables.alerts.values() if one.cause == cause and one.resolved_at is None), None)


def open_alert(tables: Tables, alert: NewAlert, now: datetime) -> None:
    """Open it, unless one of the same cause is open."""
    if alert_of(tables, alert.cause) is None:
        fields = {name: getattr(alert, name) for name in alert.__struct_fields__}
        tables.put_alert(Alert(**fields, opened_at=now))


def resolve_alert(tables: Tables, cause: str, now: datetime) -> None:
    """Resolve the open alert of this cause, if one is."""
    if (alert := alert_of(tables, cause)) is not None:
        tables.put_alert(replace(alert, resolved_at=now))
