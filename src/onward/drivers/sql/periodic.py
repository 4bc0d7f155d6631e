"""Periodic jobs as operations: look at them, write what a rule made of them together with its jobs, delete one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from onward.drivers.sql.enqueue import enqueue_what_may
from onward.drivers.sql.rows import read_instant, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.jobs import Accepted
from onward.moments import PeriodicChange, PeriodicLook, PeriodicWritten
from onward.periodic import PeriodicJob

PERIODIC_COLUMNS = (
    "name",
    "rule",
    "request",
    "is_declared",
    "next_moment",
    "paused_at",
    "paused_by",
    "last_moment",
    "last_job_id",
    "skipped",
    "version",
    "updated_at",
)


def due_periodic(now: str | None) -> Operation[PeriodicLook]:
    """Which are due, the longest overdue first. ``now`` is the time by which that is judged; None asks the database's clock."""
    ((clock, first, following),) = yield Statement("next_moment", {"now": now})
    rows: list[Row] = []
    if first is not None and first <= clock:
        rows = yield Statement("due_periodic", {"now": clock})
    return _look(read_instant(clock), rows, None if following is None else read_instant(following))


def periodic(names: Collection[str] | None, now: str | None) -> Operation[PeriodicLook]:
    """All of them, or those of these names, by name."""
    ((clock, _, following),) = yield Statement("next_moment", {"now": now})
    rows = yield Statement("periodic", {"names": None if names is None else as_json(sorted(names))})
    return _look(read_instant(clock), rows, None if following is None else read_instant(following))


def write_periodic(changes: Sequence[PeriodicChange], now: datetime) -> Operation[list[PeriodicWritten]]:
    """Write those of which nobody has written a newer version, with their jobs. The others change nothing."""
    watched = [one.unless_live for one in changes if one.unless_live is not None]
    live = {row[0] for row in (yield Statement("live_among", {"ids": as_json(watched)}, len(watched)))} if watched else set()
    held = {one.row.name for one in changes if one.unless_live in live}
    rows = [_write(one.instead if one.row.name in held and one.instead is not None else one.row) for one in changes]
    # In one order, so that two who add several at once can never wait for each other.
    asked = {"rows": as_json(sorted(rows))}
    written: set[str] = set()
    if any(one.row.version == 0 for one in changes):
        written.update(row[0] for row in (yield Statement("add_periodic", asked, len(rows))))
    if any(one.row.version > 0 for one in changes):
        written.update(row[0] for row in (yield Statement("change_periodic", asked, len(rows))))
    mine = [one for one in changes if one.row.name in written]
    jobs = [job for one in mine if one.row.name not in held for job in one.jobs]
    answers = (yield from enqueue_what_may(jobs, now)) if jobs else []
    new = {answer.id for answer in answers if isinstance(answer, Accepted) and answer.is_new}
    stands_for = {job.id: answer.id for job, answer in zip(jobs, answers, strict=True) if isinstance(answer, Accepted)}
    for one in mine:
        last = one.row.last_job_id or ""
        if one.row.name not in held and stands_for.get(last, last) != last:
            yield Statement("note_last_job", {"name": one.row.name, "job_id": stands_for[last]})
    return [
        PeriodicWritten(
            name=one.row.name,
            job_ids=tuple(job.id for job in one.jobs if job.id in new),
            stands_for=() if one.row.name in held else tuple(stands_for.get(job.id, job.id) for job in one.jobs),
            overlapped=one.row.name in held,
        )
        for one in mine
    ]


def delete_periodic(name: str) -> Operation[bool]:
    """False when there is none of this name."""
    return bool((yield Statement("delete_periodic", {"name": name})))


def _look(now: datetime, rows: list[Row], following: datetime | None) -> PeriodicLook:
    read, unreadable = [], []
    for row in rows:
        try:
            read.append(_read(row))
        except Exception:  # noqa: BLE001 - somebody wrote it by hand, and it stops only itself
            unreadable.append(str(row[0]))
    return PeriodicLook(now=now, rows=tuple(read), next_moment=following, unreadable=tuple(unreadable))


def _read(row: Row) -> PeriodicJob:
    fields: dict[str, Any] = dict(zip(PERIODIC_COLUMNS, row, strict=True))
    for name in ("rule", "request"):
        fields[name] = msgspec.json.decode(fields[name])
    fields["is_declared"] = fields["is_declared"] != 0
    read = msgspec.convert(fields, PeriodicJob)
    read.check()
    return read


def _write(row: PeriodicJob) -> list[str | int | None]:
    return [
        row.name,
        msgspec.json.encode(row.rule).decode(),
        msgspec.json.encode(row.request).decode(),
        int(row.is_declared),
        write_instant(row.next_moment),
        None if row.paused_at is None else write_instant(row.paused_at),
        row.paused_by,
        None if row.last_moment is None else write_instant(row.last_moment),
        row.last_job_id,
        row.skipped,
        row.version,
        write_instant(row.updated_at),
    ]
