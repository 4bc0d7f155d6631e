"""Periodic jobs: which are due, and what is written when a rule has made something of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec.structs import replace

from onward.drivers.memory.enqueue import enqueue
from onward.drivers.memory.tables import Tables
from onward.errors import DuplicateJob
from onward.jobs import NewJob
from onward.moments import PeriodicChange, PeriodicLook, PeriodicWritten


def look_at_periodic(tables: Tables, names: Collection[str] | None, now: datetime) -> PeriodicLook:
    """All of them, or those of these names, by name."""
    rows = sorted(tables.periodic.values(), key=lambda row: row.name)
    later = [row.next_moment for row in rows if row.paused_at is None and row.next_moment > now]
    wanted = tuple(row for row in rows if names is None or row.name in names)
    return PeriodicLook(now=now, rows=wanted, next_moment=min(later, default=None))


def due_periodic(tables: Tables, now: datetime) -> PeriodicLook:
    """Which are due, the longest overdue first."""
    look = look_at_periodic(tables, None, now)
    due = [row for row in look.rows if row.paused_at is None and row.next_moment <= now]
    return replace(look, rows=tuple(sorted(due, key=lambda row: (row.next_moment, row.name))))


def write_periodic(tables: Tables, changes: Sequence[PeriodicChange], now: datetime) -> list[PeriodicWritten]:
    """Write those of which nobody has written a newer version, with their jobs."""
    written = []
    for change in changes:
        name = change.row.name
        stored = tables.periodic.get(name)
        if (0 if stored is None else stored.version) != change.row.version:
            continue
        last = tables.jobs.get(change.unless_live or "")
        is_held = last is not None and last.status.is_live
        row = change.instead if is_held and change.instead is not None else change.row
        row = replace(row, version=row.version + 1)
        accepted = [] if is_held else [(job.id, *_accept(tables, job, now)) for job in change.jobs]
        stands_for = {asked: holder for asked, holder, _ in accepted}
        row = replace(row, last_job_id=stands_for.get(row.last_job_id or "", row.last_job_id))
        tables.put_periodic(row)
        new = tuple(asked for asked, _, is_new in accepted if is_new)
        written.append(PeriodicWritten(name=name, job_ids=new, stands_for=tuple(stands_for.values()), overlapped=is_held))
    return written


def _accept(tables: Tables, job: NewJob, now: datetime) -> tuple[str, bool]:
    """Which job stands for this one, and whether it is new."""
    try:
        (accepted,) = enqueue(tables, [job], now)
    except DuplicateJob:
        return job.id, False
    return accepted.id, accepted.is_new
