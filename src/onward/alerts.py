"""Alerts: what people should know of, once for each cause, until it is over."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from onward.breaker import BreakerState
from onward.ids import new_id

Severity: TypeAlias = Literal["info", "warning", "critical"]


class Alert(Struct, frozen=True, kw_only=True):
    """One alert. Every instant is aware UTC."""

    id: str
    """ULID."""
    category: str
    """What kind it is of, such as ``breaker_open``."""
    severity: Severity
    cause: str
    """What it is about, such as ``breaker:s3``. Of one cause, one alert at most is open."""
    message: str
    """For people."""
    context: str = "{}"
    """JSON text, for programs."""
    opened_at: datetime
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    resolved_at: datetime | None = None


class Told(Struct, frozen=True):
    """Alerts of which nobody was told yet: from now on somebody is."""

    opened: tuple[Alert, ...] = ()
    resolved: tuple[Alert, ...] = ()


class NewAlert(Struct, frozen=True, kw_only=True):
    """What is to be told."""

    id: str
    category: str
    severity: Severity
    cause: str
    message: str
    context: str


def breaker_cause(key: str) -> str:
    """The cause of the alert that a breaker is open."""
    return f"breaker:{key}"


def breaker_opened(state: BreakerState, *, by_hand: bool = False) -> NewAlert:
    """The alert that a breaker has opened, or that a person has opened it."""
    failures = "failure" if state.failures == 1 else "failures"
    how = "was opened by hand" if by_hand else f"opened after {state.failures:,} {failures} in a row"
    context = {"breaker": state.key, "failures": state.failures, "retry_at": state.retry_at}
    return NewAlert(
        id=new_id(),
        category="breaker_open",
        severity="warning",
        cause=breaker_cause(state.key),
        message=f"the breaker {state.key} {how}: its jobs wait",
        context=msgspec.json.encode(context).decode(),
    )
