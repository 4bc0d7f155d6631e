"""What keeps a store small, as operations: finished jobs looked at and deleted, and everything else that is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from onward.drivers.sql import actions, alerts
from onward.drivers.sql.rows import read_instant, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.inspection import IDLE_FOR, Retention
from onward.pruning import Due, Ended, Look

LONG_AGO = datetime.min.replace(tzinfo=UTC)


def finished(look: Look, now: datetime | None) -> Operation[list[Ended]]:
    """Read finished jobs, the oldest first. ``now`` is None where the database's clock counts."""
    asked = {
        "status": look.status.value,
        "since": None if look.since is None else write_instant(look.since),
        "age": look.age.total_seconds(),
        "now": None if now is None else write_instant(now),
        "before": None if now is None else write_instant(now - look.age),
        "limit": look.limit,
    }
    rows = yield Statement("finished", asked)
    return [_ended(row, now) for row in rows]


def _ended(row: Row, now: datetime | None) -> Ended:
    id_, type_, queue, text, microseconds = row
    finished_at = _instant(text)
    age = timedelta(microseconds=microseconds) if now is None or microseconds is not None else now - finished_at
    return Ended(id_, _text(type_), _text(queue), finished_at, age)


def _instant(text: Any) -> datetime:
    """What somebody wrote by hand, and is no instant, sorts as one of long ago, and goes like that."""
    try:
        instant = read_instant(text)
    except (TypeError, ValueError):
        return LONG_AGO
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def delete_finished(due: Due, *, relaxed: bool = False) -> Operation[int]:
    """Delete those that are what they were, with their history. On SQLite whoever runs it says how durable it is."""
    asked = {"relaxed": relaxed, "status": due.status.value, "upto": write_instant(due.upto), "ids": as_json(due.ids)}
    rows = yield Statement("prune", asked)
    if rows:
        yield Statement("delete_history", {"ids": as_json([row[0] for row in rows])})
    return len(rows)


def tidy(retention: Retention, limit: int, now: datetime) -> Operation[bool]:
    """Delete ``limit`` of each of these at most: keys whose window is over, old records of actions, alerts that are over, and breakers and
    limits of keys that nobody has needed for ``IDLE_FOR``. Says whether there may be more.
    """
    idle = {"before": write_instant(now - IDLE_FOR), "limit": limit}
    deleted = [
        len((yield Statement("prune_keys", {"now": write_instant(now), "limit": limit}))),
        (yield from actions.prune(retention.actions, limit, now)),
        (yield from alerts.prune(retention.alerts, limit, now)),
        len((yield Statement("prune_breakers", idle))),
        len((yield Statement("prune_limits", idle))),
    ]
    return max(deleted) >= limit
