"""Metrics as operations: what waits and runs just now, and what has ever ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from onward.drivers.sql.rollups import read_histograms, read_rollups, write_histograms
from onward.drivers.sql.rows import read_any_instant, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.inspection import MOST_COUNTED
from onward.jobs import BlockedBy, Job
from onward.metrics import Backlog, Lane, Total, add_rollups
from onward.rollups import MERGED_AFTER, minute_of

COUNTED_AT_ONCE = timedelta(hours=6)
"""Of rollups, in one transaction."""


class _Found(dict[Lane, Backlog]):
    """What is known by now. Names that are no text were written by hand, and are left out."""

    def change(self, queue: Any, type_: Any, change: Callable[[Backlog], Backlog]) -> None:
        if isinstance(queue, str) and isinstance(type_, str):
            self[queue, type_] = change(self.get((queue, type_)) or Backlog(queue=queue, type=type_))


def backlog(now: datetime) -> Operation[list[Backlog]]:
    """What waits and runs, by queue and type."""
    found = _Found()
    for (queue,) in (yield Statement("waiting_queues")):
        yield from _add_due(found, queue, now)
    for why, type_, queue, count, oldest in (yield Statement("blocked_counts", {"limit": MOST_COUNTED})):
        found.change(queue, type_, partial(_with_blocked, why=why, count=count, oldest=read_any_instant(oldest)))
    for queue, type_, count in (yield Statement("running_types")):
        found.change(queue, type_, partial(replace, in_progress=count))
    rows = yield Statement("dead_types", {"limit": MOST_COUNTED})
    are_capped = sum(row[2] for row in rows) >= MOST_COUNTED
    for queue, type_, count in rows:
        found.change(queue, type_, partial(_with_dead, count=count, are_capped=are_capped))
    return [found[lane] for lane in sorted(found)]


def _add_due(found: _Found, queue: Any, now: datetime) -> Operation[None]:
    rows = yield Statement("due_types", {"queue": queue, "now": write_instant(now), "limit": MOST_COUNTED})
    is_capped = sum(row[1] for row in rows) >= MOST_COUNTED
    for type_, count, oldest in rows:
        found.change(queue, type_, partial(replace, due=count, oldest_due_at=read_any_instant(oldest), is_capped=is_capped))
    if is_capped:
        # Whoever is never reached, behind an endless stream of higher priority, must be seen all the same.
        for type_, oldest in (yield Statement("longest_due", {"queue": queue, "now": write_instant(now)})):
            found.change(queue, type_, partial(_with_longest_due, oldest=read_any_instant(oldest)))


def _with_longest_due(was: Backlog, oldest: datetime | None) -> Backlog:
    return replace(was, due=max(was.due, 1), oldest_due_at=_earlier(was.oldest_due_at, oldest), is_capped=True)


def _with_blocked(was: Backlog, why: BlockedBy, count: int, oldest: datetime | None) -> Backlog:
    is_capped = was.is_capped or count >= MOST_COUNTED
    return replace(was, blocked={**was.blocked, why: count}, oldest_due_at=_earlier(was.oldest_due_at, oldest), is_capped=is_capped)


def _with_dead(was: Backlog, count: int, are_capped: bool) -> Backlog:
    return replace(was, dead_letters=count, is_capped=was.is_capped or are_capped)


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


def due_before(job: Job, now: datetime) -> Operation[int]:
    """How many due jobs of its queue are taken before a job."""
    asked = {
        "queue": job.queue,
        "priority": job.priority,
        "scheduled_at": write_instant(job.scheduled_at),
        "id": job.id,
        "now": write_instant(now),
        "limit": MOST_COUNTED,
    }
    rows = yield Statement("due_before", asked)
    return int(rows[0][0])


def totals() -> Operation[list[Total]]:
    """What has ever ended, by queue, type and outcome."""
    rows = yield Statement("totals")
    counted = [row[1:] for row in rows if row[0] == "total"]
    return add_rollups(_read_totals(counted), read_rollups(row[1:] for row in rows if row[0] == "rollup"))


def count_totals(now: datetime) -> Operation[bool]:
    """Add rollups of minutes that nobody writes any more to what has ever ended. Says whether there are more of them.

    A clock that was set back writes minutes that are counted already: what ends then is in no total.
    """
    yield Statement("begin_counting")
    found = yield Statement("counted_until")
    if not found or found[0][1] is None:
        return False
    since, first = found[0]
    before = minute_of(now - MERGED_AFTER)
    if first >= before:
        return False
    until = min(_later(first), before)
    rollups = read_rollups((yield Statement("rollups_between", {"since": since, "before": until})))
    changed = {(one.queue, one.type, one.outcome) for one in rollups}
    known = _read_totals(row[1:] for row in (yield Statement("totals")) if row[0] == "total")
    grown = [one for one in add_rollups(known, rollups) if (one.queue, one.type, one.outcome) in changed]
    rows = [[one.queue, one.type, one.outcome, one.since, one.count, write_histograms(one.waited, one.ran)] for one in grown]
    yield Statement("write_totals", {"rows": as_json([*rows, ["", "", "", until, 0, ""]])})
    return until < before


def _later(minute: str) -> str:
    try:
        return minute_of(datetime.fromisoformat(minute + "+00:00") + COUNTED_AT_ONCE)
    except (ValueError, OverflowError):  # written by hand
        return minute + "~"  # sorts behind it


def _read_totals(rows: Iterable[Row]) -> list[Total]:
    found = []
    for since, queue, type_, outcome, _, count, histogram in rows:
        waited, ran = read_histograms(histogram)
        found.append(Total(queue=queue, type=type_, outcome=outcome, since=since, count=count, waited=waited, ran=ran))
    return found
