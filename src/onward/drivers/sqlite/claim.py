"""Claim as an operation on SQLite: a few seeks a lane, each a statement, which costs microseconds inside the process."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from datetime import datetime, timedelta

from onward.drivers.sql.expire import expire
from onward.drivers.sql.found import Found
from onward.drivers.sql.rooms import Rooms, rooms_of_queues, spend
from onward.drivers.sql.rows import UnreadableRow, read_instant, read_objects, read_workable, sort_out_unusable, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Parameters, Row, Statement, as_json
from onward.drivers.sql.turn import served_by, unblock_first
from onward.drivers.sql.waits import admit_rows, let_ripe, next_ripe
from onward.drivers.sqlite.vendor_errors import CORRUPT
from onward.ids import is_id
from onward.jobs import Job
from onward.turn import BLOCKED_PER_TURN, Claim, Demand

READ_AT_ONCE = 128
"""Claimed rows that become one JSON text: with the longest payloads it has 32 MiB."""


def claim(demand: Demand, now: datetime) -> Operation[Found]:
    """Claim what is due, the highest priority first, then by scheduled_at and id, over all the demanded queues.

    Every lane is a (queue, priority); the cost depends on the lanes and on what is taken, not on what waits or has ended.
    """
    if demand.unblocks:
        yield from unblock_first(demand, now)
    ripe_at = yield from let_ripe(now)
    found = Found()
    while True:
        expired = len(found.expired)
        yield from _claim_due(found, demand, now)
        # Those that wait for what has expired may have been let go on.
        has_let = any(job.serial_key is not None or job.concurrency_key is not None for job in found.expired[expired:])
        if not has_let or len(found.claims) >= demand.slots or len(found.expired) >= BLOCKED_PER_TURN:
            break
    if found.refused:
        ripe_at = yield from next_ripe(now)
    found.look_again(ripe_at, now)
    found.leaves_blocked = bool((yield Statement("any_blocked", served_by(demand)))[0][0])
    return found


def _claim_due(found: Found, demand: Demand, now: datetime) -> Operation[None]:
    now_text = write_instant(now)
    # What is no text was written by hand, and the sweep sets it aside: as JSON it would be taken for the name of another queue.
    queues = list(demand.queues) or [row[0] for row in (yield Statement("waiting_queues")) if isinstance(row[0], str)]
    rooms = yield from rooms_of_queues(now)
    if not queues:
        found.look_again(rooms.next_token(now), now)
        return
    lanes = yield Statement("lanes", {"queues": as_json(rooms.open(queues))})
    due: dict[int, list[str]] = defaultdict(list)
    is_sure: dict[int, bool] = defaultdict(bool)
    for queue, priority, first in lanes:
        if isinstance(first, bytes) or first <= now_text:
            due[priority].append(queue)
            is_sure[priority] = is_sure[priority] or (isinstance(first, str) and isinstance(priority, int))
    for priority, its_queues in due.items():
        if (yield from _claim_priority(found, demand, now, its_queues, priority, rooms, is_sure=is_sure[priority])):
            found.next_due = timedelta(0)
            break
    else:
        if due:
            lanes = yield Statement("lanes", {"queues": as_json(rooms.open(queues))})
        firsts = [first for _, _, first in lanes if isinstance(first, str)]
        found.next_due = _until(min(firsts), now) if firsts else None
    yield from spend(rooms, now)
    found.look_again(rooms.next_token(now), now)


def _claim_priority(
    found: Found, demand: Demand, now: datetime, queues: list[str], priority: int, rooms: Rooms, *, is_sure: bool
) -> Operation[bool]:
    """Take one priority's due rows from these queues, of which there are some if ``is_sure``. True when it ends with rows that are due."""
    now_text = write_instant(now)
    handled: set[str | bytes] | None = None
    while queues := rooms.open(queues):
        wanted = demand.slots - len(found.claims)
        # One more than is wanted tells whether anything is left; many more once rows have to be moved aside.
        limit = BLOCKED_PER_TURN if found.blocked or found.refused or found.expired else wanted + 1
        rows, is_full = yield from _due(queues, priority, rooms, limit, now_text)
        if (handled is None and is_sure and not rows) or (handled and any(row[1] in handled for row in rows)):
            raise _damaged()
        sound, bad = _without_bad(rows)
        yield from set_aside(bad, now_text)
        shares = any(row[4] for row in sound)
        known, expired, unknown, left = _sort_out(sound, demand, found, len(sound) if shares else wanted, now_text)
        handled = {*expired, *unknown, *(row.job_id for row in bad)}
        if expired:
            found.expired += yield from expire(expired, now_text)
        if unknown:
            found.blocked += len(unknown)
            yield Statement("block", {"ids": as_json(unknown), "now": now_text})
        if shares:
            admitted = yield from admit_rows(known, demand.constraints, now, room=wanted)
            handled.update(admitted.aside)
            found.refused += len(admitted.aside)
            let = set(admitted.let)
            known, left = [one for one in known if one[0] in let], left or admitted.left > 0
        if known:
            handled.update(id_ for id_, _ in known)
            yield from _take(found, demand, now, known, rooms)
        if left or max(len(found.expired), found.refused) >= BLOCKED_PER_TURN:
            return True
        if not is_full or not handled:
            return False
    return False


def _due(queues: list[str], priority: int, rooms: Rooms, limit: int, now_text: str) -> Operation[tuple[list[Row], bool]]:
    """One priority's first rows that are due, in order; and whether there may be more of them.

    Of a queue with a limit no more than it has room for. Whether those take the room is not known yet: if one is refused, the next of its
    queue comes before what is behind it in other queues. So nothing is given behind the last that was read of such a queue.
    """
    rows: list[Row] = []
    is_full = False
    cuts: list[tuple[str, str]] = []
    for queue in queues:
        its_limit = rooms.of(queue, limit)
        its_rows = yield Statement("due", {"queue": queue, "priority": priority, "now": now_text, "limit": its_limit})
        is_full = is_full or len(its_rows) >= its_limit
        rows += its_rows
        if len(its_rows) >= its_limit < limit:
            cuts.append(_place(its_rows[-1]))
    if len(queues) > 1:
        rows.sort(key=_place)
    if cuts:
        cut = min(cuts)
        rows = [row for row in rows if _place(row) <= cut]
    # Past the first `limit` rows of all, a queue may hold earlier ones that were not read.
    return rows[:limit], is_full or len(rows) >= limit


def _place(row: Row) -> tuple[str, str]:
    return str(row[0]), str(row[1])


def _without_bad(rows: list[Row]) -> tuple[list[Row], list[UnreadableRow]]:
    """Sort out what cannot even be named or compared, because somebody wrote it by hand."""
    sound: list[Row] = []
    bad: list[UnreadableRow] = []
    for row in rows:
        scheduled_at, id_, _, expires_at, _ = row
        if not isinstance(id_, str) or not is_id(id_):
            bad.append(UnreadableRow(id_, "its id has not the form of an id"))
        elif not isinstance(scheduled_at, str) or not (expires_at is None or isinstance(expires_at, str)):
            bad.append(UnreadableRow(id_, "scheduled_at or expires_at is no text"))
        else:
            sound.append(row)
    return sound, bad


def _sort_out(
    rows: list[Row], demand: Demand, found: Found, wanted: int, now_text: str
) -> tuple[list[tuple[str, str]], list[str], list[str], bool]:
    """Say which due rows to claim (id and type), to expire and to block; and whether some are left for the next turn."""
    known: list[tuple[str, str]] = []
    expired: list[str] = []
    unknown: list[str] = []
    for _, id_, type_, expires_at, _ in rows:
        if expires_at is not None and expires_at <= now_text:
            expired.append(id_)
        elif type_ not in demand.types:
            if found.blocked + len(unknown) >= BLOCKED_PER_TURN:
                return known, expired, unknown, True
            unknown.append(id_)
        elif len(known) >= wanted:
            return known, expired, unknown, True
        else:
            known.append((id_, type_))
    return known, expired, unknown, False


def _take(found: Found, demand: Demand, now: datetime, known: list[tuple[str, str]], rooms: Rooms) -> Operation[None]:
    now_text = write_instant(now)
    by_lease: dict[timedelta, list[str]] = defaultdict(list)
    for id_, type_ in known:
        by_lease[demand.types[type_]].append(id_)
    taken: list[Claim] = []
    asked = {"lease_owner": demand.lease_owner, "now": now_text}
    for lease, ids in by_lease.items():
        yield Statement("claim", asked | {"ids": as_json(ids), "lease_until": write_instant(now + lease)})
        for first in range(0, len(ids), READ_AT_ONCE):
            piece = ids[first : first + READ_AT_ONCE]
            jobs, unreadable = yield from _claimed(asked | {"ids": as_json(piece)})
            if len(jobs) + len(unreadable) < len(piece):
                raise _damaged()
            taken += [Claim(job, lease) for job in jobs]
            yield from set_aside(unreadable, now_text)
    taken.sort(key=lambda one: (one.job.scheduled_at, one.job.id))
    found.claims += taken
    if rooms.left:
        for one in taken:
            rooms.take(one.job.queue)


def _claimed(asked: Parameters) -> Operation[tuple[list[Job], list[UnreadableRow]]]:
    try:
        jobs = read_objects((yield Statement("claimed", asked))[0][0])
    except sqlite3.OperationalError:  # bytes, which have no form in JSON; what else it may be the rows meet again
        jobs = None
    return read_workable((yield Statement("claimed_rows", asked))) if jobs is None else sort_out_unusable(jobs)


def _damaged() -> sqlite3.DatabaseError:
    """The index of what is due contradicts itself or the table, and nobody else can have written meanwhile: the write lock is ours.

    Without this, a claim would meet the same entry for ever, and hold the lock or the whole queue with it.
    """
    error = sqlite3.DatabaseError("the index of due jobs does not agree with their table")
    error.sqlite_errorcode = CORRUPT
    return error


def _until(first: str, now: datetime) -> timedelta:
    try:
        return max(read_instant(first) - now, timedelta(0))
    except (ValueError, TypeError):  # written by hand; the next claim deals with it
        return timedelta(seconds=1)
