"""The pure rules of periodic jobs: what is due, what is written when it was, and what a declaration or a person changes.

A moment is one due time of a periodic job. The job of a moment has an id that is made of name and moment, so that a moment has one job at
most, however many processes try and whatever the clock does, for as long as the row of that job is kept.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from onward.durations import parse_duration
from onward.ids import encode
from onward.jobs import NewJob
from onward.periodic import PausedBy, Periodic, PeriodicJob, PeriodicRequest, PeriodicRule, Times
from onward.unique import read_scope

LATE = timedelta(seconds=60)
"""A moment that is noticed later than this was missed: no worker looked in time."""
UNDECLARED_AFTER = timedelta(minutes=5)
"""How long a due moment waits for a worker whose code declares it, before the periodic job is paused."""
MOST_COUNTED = 1000
"""Missed moments are counted up to here, and no further."""


class PeriodicChange(Struct, frozen=True, kw_only=True):
    """What is to be written if nobody else was quicker, and the jobs that go with it in the same commit."""

    row: PeriodicJob
    """The whole new content; its ``version`` is the one that was read, 0 for a new one."""
    jobs: tuple[NewJob, ...] = ()
    unless_live: str | None = None
    """The id of a job: while that is not done with, there are no new ones, and ``instead`` is written."""
    instead: PeriodicJob | None = None


class PeriodicWritten(Struct, frozen=True, kw_only=True):
    """What became of a change that was written."""

    name: str
    job_ids: tuple[str, ...] = ()
    """The jobs that are new by it."""
    stands_for: tuple[str, ...] = ()
    """For each job of the change, in order, the id of the one that stands for it: its own, or that of the holder of its key."""
    overlapped: bool = False
    """True when the moment was skipped, since the job of the last one was not done with."""


class PeriodicLook(Struct, frozen=True, kw_only=True):
    """Periodic jobs as they were in one moment."""

    now: datetime
    """The store's clock."""
    rows: tuple[PeriodicJob, ...] = ()
    next_moment: datetime | None = None
    """When the next of those is due that are neither due nor paused."""
    unreadable: tuple[str, ...] = ()
    """The names of rows that somebody wrote by hand and that cannot be read."""


# -- what is declared becomes what is stored --------------------------------------------------------------------------


def declare(periodic: Periodic, stored: PeriodicJob | None, now: datetime, *, is_declared: bool = True) -> PeriodicChange | None:
    """What has to be written so that the store says what the code says. None when it does already.

    A moment that was due before stays due, unless the rule itself is another one: then it is skipped, and counted. A pause by a person
    stays; one because nobody declared it ends.
    """
    if stored is None:
        moment = periodic.rule.times().after(now)
        row = PeriodicJob(
            name=periodic.name,
            rule=periodic.rule,
            request=periodic.request,
            is_declared=is_declared,
            next_moment=moment,
            updated_at=now,
        )
        return PeriodicChange(row=row)
    row = replace(stored, rule=periodic.rule, request=periodic.request, is_declared=is_declared)
    if _timing(stored.rule) != _timing(periodic.rule):
        missed = 0 if stored.paused_by == "person" else _due(stored.rule.times(), stored.next_moment, now, 1)[1]
        row = replace(row, next_moment=periodic.rule.times().after(now), skipped=row.skipped + missed)
    row = _adopted(row, now)
    return None if row == stored else PeriodicChange(row=replace(row, updated_at=now))


def adopt(stored: PeriodicJob, now: datetime) -> PeriodicChange | None:
    """What has to be written of one that was made at run time, when a worker that knows its type starts: as ``declare``."""
    row = _adopted(stored, now)
    return None if row == stored else PeriodicChange(row=replace(row, updated_at=now))


def _adopted(row: PeriodicJob, now: datetime) -> PeriodicJob:
    if row.paused_by == "undeclared":
        row = replace(row, paused_at=None, paused_by=None)
    return rewind(row, now) or row


def _timing(rule: PeriodicRule) -> tuple[str | None, str | None, str]:
    return rule.cron, rule.every, rule.timezone


def rewind(row: PeriodicJob, now: datetime) -> PeriodicJob | None:
    """The row with the moment that is next by a clock which was set back since it was written. None when that is no other one.

    Moments that come again have their job already, and get no second one.
    """
    if row.updated_at <= now:
        return None
    moment = row.rule.times().after(now)
    return replace(row, next_moment=moment) if moment < row.next_moment else None


# -- what is due ------------------------------------------------------------------------------------------------------


def is_known(row: PeriodicJob, declared: Collection[str], types: Collection[str]) -> bool:
    """Whether the code of this process stands behind it: declares it, or knows the type of one that was made at run time."""
    return row.name in declared if row.is_declared else row.request.type in types


def fire(row: PeriodicJob, now: datetime, chance: Random) -> PeriodicChange:
    """The jobs of the moments that are due, and the row as it is then."""
    times, rule = row.rule.times(), row.rule
    most = rule.most_catch_up if rule.catch_up == "all" else 1
    due, count = _due(times, row.next_moment, now, most)
    if rule.catch_up == "skip" and due and now - due[-1] > LATE:
        due = []
    following = times.after(now)
    jobs = tuple(_job(row, moment, _jitter(rule, moment, times, chance)) for moment in due)
    skipped = replace(row, next_moment=following, skipped=row.skipped + count - len(due), updated_at=now)
    if not due:
        return PeriodicChange(row=skipped)
    fired = replace(skipped, last_moment=due[-1], last_job_id=jobs[-1].id)
    if rule.overlap == "allow" or row.last_job_id is None:
        return PeriodicChange(row=fired, jobs=jobs)
    return PeriodicChange(row=fired, jobs=jobs, unless_live=row.last_job_id, instead=replace(skipped, skipped=skipped.skipped + len(due)))


def _due(times: Times, first: datetime, now: datetime, most: int) -> tuple[list[datetime], int]:
    """The newest moments from ``first`` to ``now``, and how many there are, as far as they are counted."""
    newest: deque[datetime] = deque(maxlen=most)
    moment, count = first, 0
    while moment <= now and count < MOST_COUNTED:
        newest.append(moment)
        count += 1
        moment = times.after(moment)
    if moment <= now:
        return _newest(times, first, now, most), count
    return list(newest), count


def _newest(times: Times, first: datetime, now: datetime, most: int) -> list[datetime]:
    """The newest moments of very many: looks back from now, twice as far each time, so that it passes few that it does not want."""
    span = timedelta(minutes=1)
    while True:
        begin = max(now - span, first - timedelta(seconds=1))
        found: deque[datetime] = deque(maxlen=most)
        moment, count = times.after(begin), 0
        while moment <= now:
            found.append(moment)
            count += 1
            moment = times.after(moment)
        if count >= most or begin < first:
            return list(found)
        span *= 2


def _jitter(rule: PeriodicRule, moment: datetime, times: Times, chance: Random) -> timedelta:
    longest = parse_duration(rule.jitter)
    if not longest:
        return longest
    return min(longest, times.after(moment) - moment) * chance.random()


def run_now(row: PeriodicJob, job_id: str, now: datetime) -> PeriodicChange:
    """One more job, now; the moments stay what they are."""
    job = _new_job(row.request, id=job_id, at=None, metadata=_metadata(row, {"periodic": row.name}))
    return PeriodicChange(row=replace(row, updated_at=now), jobs=(job,))


def pause(row: PeriodicJob, now: datetime, by: PausedBy) -> PeriodicChange | None:
    """None when it is paused already. A person's pause takes over from one for want of code, which a deploy would end."""
    if row.paused_at is None:
        return PeriodicChange(row=replace(row, paused_at=now, paused_by=by, updated_at=now))
    if by == "person" and row.paused_by == "undeclared":
        return PeriodicChange(row=replace(row, paused_by=by, updated_at=now))
    return None


def resume(row: PeriodicJob, now: datetime) -> PeriodicChange | None:
    """None when it was not paused. What was due during a pause was not missed: it goes on with the next moment."""
    if row.paused_at is None:
        return None
    row = replace(row, paused_at=None, paused_by=None, next_moment=row.rule.times().after(now), updated_at=now)
    return PeriodicChange(row=row)


# -- the job of a moment ----------------------------------------------------------------------------------------------


def moment_id(name: str, moment: datetime) -> str:
    """The id of the job of a moment: the same in every process."""
    digest = hashlib.sha256(f"{name}\0{moment.astimezone(UTC).isoformat()}".encode()).digest()
    return encode((round(moment.timestamp() * 1000) << 80) | int.from_bytes(digest[:10], "big"))


def _job(row: PeriodicJob, moment: datetime, jitter: timedelta) -> NewJob:
    said = {"periodic": row.name, "moment": moment.astimezone(UTC).isoformat().replace("+00:00", "Z")}
    return _new_job(row.request, id=moment_id(row.name, moment), at=moment + jitter, metadata=_metadata(row, said))


def _metadata(row: PeriodicJob, said: dict[str, str]) -> str:
    return msgspec.json.encode({**msgspec.json.decode(row.request.metadata), **said}, order="sorted").decode()


def _new_job(request: PeriodicRequest, *, id: str, at: datetime | None, metadata: str) -> NewJob:
    return NewJob(
        id=id,
        type=request.type,
        payload=request.payload,
        payload_hash=request.payload_hash,
        queue=request.queue,
        priority=request.priority,
        at=at,
        expires=None if request.expires is None else parse_duration(request.expires),
        max_attempts=request.max_attempts,
        isolated=request.isolated,
        key=request.key,
        scope=read_scope(request.scope),
        owner=request.owner,
        metadata=metadata,
        concurrency_key=request.concurrency_key,
        serial_key=request.serial_key,
        breaker=request.breaker,
    )
