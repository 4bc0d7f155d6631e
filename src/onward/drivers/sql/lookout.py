"""Which workers there are, what the rules of alerts find, and who is told of it, as operations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from onward.alert_rules import AlertRules
from onward.alerts import Told
from onward.drivers.sql.alerts import alerts, open_alert, read_alerts, resolve_alerts
from onward.drivers.sql.enqueue import enqueue
from onward.drivers.sql.rows import read_any_instant, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.metrics import Metrics
from onward.outcome import storable
from onward.presence import FORGOTTEN_AFTER, KnownWorker, Presence
from onward.sight_verbs import Due, JobsFor
from onward.verdict import MOST_OPEN, Condition, Verdict, as_alerts_are, judge

WORKER_COLUMNS: tuple[str, ...] = ("lease_owner", "name", "queues", "types", "concurrency", "started_at", "seen_at")
TOLD_AT_ONCE = 100


def worker_row(presence: Presence, now: str | None) -> dict[str, Any]:
    """A worker as it is stored. Where ``now`` is None the database's clock is asked, in ``see_worker``."""
    return {
        "lease_owner": presence.lease_owner,
        "name": storable(presence.name),
        "queues": as_json(presence.queues),
        "types": as_json(presence.types),
        "concurrency": presence.concurrency,
        "now": now,
    }


def announce(presence: Presence, now: datetime) -> Operation[None]:
    """Write down that a worker is there."""
    row = worker_row(presence, write_instant(now))
    if not (yield Statement("see_worker", row)):
        yield Statement("announce_worker", row)
        yield Statement("prune_workers", {"before": write_instant(now - FORGOTTEN_AFTER), "future": write_instant(now + FORGOTTEN_AFTER)})


def withdraw(lease_owner: str) -> Operation[None]:
    """Forget a worker that has ended."""
    yield Statement("withdraw_worker", {"lease_owner": lease_owner})


def workers() -> Operation[list[KnownWorker]]:
    """All that have announced themselves. A row that cannot be read was written by hand, and is left out."""
    rows = yield Statement("workers")
    return [one for row in rows if (one := _read_worker(row)) is not None]


def look_out(every: timedelta, now: datetime) -> Operation[Due]:
    """Say what there is to do."""
    ((since, has_untold),) = yield Statement("look_out")
    last = read_any_instant(since)
    return Due(is_time_to_look=last is None or not now - every < last <= now, has_untold=bool(has_untold))


def take_look(every: timedelta, now: datetime) -> Operation[bool]:
    """Be the one that looks, or hear that somebody else is."""
    yield Statement("begin_looking", {"now": write_instant(now)})
    return bool((yield Statement("take_look", {"now": write_instant(now), "before": write_instant(now - every)})))


def judge_look(rules: AlertRules, look: Metrics, now: datetime) -> Operation[Verdict]:
    """Open and resolve alerts, and remember."""
    yield Statement("begin_looking", {"now": write_instant(now)})
    yield Statement("hold_conditions")
    stored = {one.cause: one for one in _read_conditions((yield Statement("conditions")))}
    known = as_alerts_are(stored, (yield from alerts(True, MOST_OPEN, None)))
    verdict = judge(rules, look, known)
    for alert in verdict.opened:
        yield from open_alert(alert, now)
    yield from resolve_alerts(verdict.resolved, now)
    changed = [one for one in verdict.conditions if stored.get(one.cause) != one]
    gone = stored.keys() - {one.cause for one in verdict.conditions}
    if changed:
        rows = [[one.cause, int(one.is_open), None if one.since is None else write_instant(one.since)] for one in changed]
        yield Statement("write_conditions", {"rows": as_json(rows)})
    if gone:
        yield Statement("forget_conditions", {"causes": as_json(sorted(gone))})
    return verdict


def tell(now: datetime, jobs_for: JobsFor) -> Operation[Told]:
    """Take those of which nobody was told yet, so that nobody else tells of them, and accept the jobs that do."""
    asked = {"now": write_instant(now), "limit": TOLD_AT_ONCE}
    opened = read_alerts((yield Statement("tell_opened", asked)))
    resolved = read_alerts((yield Statement("tell_resolved", asked)))
    told = Told(tuple(sorted(opened, key=lambda one: one.id)), tuple(sorted(resolved, key=lambda one: one.id)))
    if jobs := jobs_for(told):
        yield from enqueue(jobs, now)
    return told


def _read_conditions(rows: Iterable[Row]) -> Iterable[Condition]:
    for cause, is_open, since in rows:
        if isinstance(cause, str):
            yield Condition(cause, bool(is_open), read_any_instant(since))


def _read_worker(row: Row) -> KnownWorker | None:
    try:
        fields = dict(zip(WORKER_COLUMNS, row, strict=True))
        fields |= {name: msgspec.json.decode(fields[name]) for name in ("queues", "types")}
        worker = msgspec.convert(fields, KnownWorker)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return None
    return worker if worker.started_at.tzinfo is not None and worker.seen_at.tzinfo is not None else None
