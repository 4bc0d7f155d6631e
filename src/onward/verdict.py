"""What becomes of the alerts of each rule, from one look to the next.

What a rule finds has to last before its alert opens, and to be over by a margin, and for as long, before it is resolved: so noise around a
threshold tells nobody anything. Pure: a look and what was known before go in, what is to be told comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from onward.alert_rules import AlertRules
from onward.alerts import Alert, NewAlert
from onward.ids import new_id
from onward.metrics import Metrics
from onward.readings import CATEGORIES, Reading, read

MOST_OPEN = 10_000
"""Open alerts that are compared with what is known."""
MOST_NEW = 100
"""Causes that one look takes up."""


class Condition(Struct, frozen=True):
    """What is known of a cause between two looks."""

    cause: str
    is_open: bool = False
    """Whether its alert is open."""
    since: datetime | None = None
    """While it is not open: since when it holds. While it is: since when it does not any more, None while it does."""


class Verdict(Struct, frozen=True):
    """What one look comes to."""

    opened: tuple[NewAlert, ...] = ()
    resolved: tuple[str, ...] = ()
    """Causes whose alerts are over."""
    conditions: tuple[Condition, ...] = ()
    """All that is to be known at the next look."""


def as_alerts_are(conditions: Mapping[str, Condition], open_alerts: Iterable[Alert]) -> dict[str, Condition]:
    """Conditions, put right by the alerts of rules that are open: somebody may have deleted rows of either by hand."""
    causes = {one.cause for one in open_alerts if one.category in CATEGORIES}
    known = {cause: one for cause, one in conditions.items() if not one.is_open or cause in causes}
    for cause in causes:
        if cause not in known or not known[cause].is_open:
            known[cause] = Condition(cause, is_open=True)
    return known


def judge(rules: AlertRules, look: Metrics, known: Mapping[str, Condition]) -> Verdict:
    """Say what opens, what is over, and what to remember. ``known`` are the conditions by their causes."""
    now = look.at
    readings = {one.cause: one for one in read(rules, look)}
    opened: list[NewAlert] = []
    resolved: list[str] = []
    kept: list[Condition] = []
    for cause, was in known.items():
        reading = readings.pop(cause, None)
        since = None if was.since is None else min(was.since, now)
        if not was.is_open:
            if reading is None or not reading.is_over or since is None:
                continue
            if now - since >= rules.lasts:
                opened.append(_alert(reading))
                kept.append(Condition(cause, is_open=True))
            else:
                kept.append(Condition(cause, since=since))
        elif reading is not None and not reading.is_clear:
            kept.append(Condition(cause, is_open=True))
        elif now - (since or now) >= rules.lasts:
            resolved.append(cause)
        else:
            kept.append(Condition(cause, is_open=True, since=since or now))
    for reading in [one for one in readings.values() if one.is_over][:MOST_NEW]:
        if rules.lasts:
            kept.append(Condition(reading.cause, since=now))
        else:
            opened.append(_alert(reading))
            kept.append(Condition(reading.cause, is_open=True))
    return Verdict(tuple(opened), tuple(resolved), tuple(kept))


def _alert(reading: Reading) -> NewAlert:
    context: dict[str, Any] = {"metric": reading.category, "value": round(reading.value, 6), "threshold": reading.threshold}
    if reading.queue is not None:
        context |= {"queue": reading.queue, "type": reading.type}
    return NewAlert(
        id=new_id(),
        category=reading.category,
        severity=reading.severity,
        cause=reading.cause,
        message=reading.message,
        context=msgspec.json.encode(context).decode(),
    )
