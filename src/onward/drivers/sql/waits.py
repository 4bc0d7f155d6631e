"""Why a due job waits for others, as operations: ask for a claim's candidates, and let go on who waits for what is free again.

Who is refused is judged under the keys that it shares (``hold_keys``), and who frees a key waits for whoever judges over it
(``await_keys``). So nobody is refused for a place that is freed unseen in the same moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from onward.admission import (
    Admitted,
    Candidate,
    Constraint,
    SerialLine,
    Standing,
    admit,
    as_said,
    keys_of,
    name_of_breaker,
    name_of_key,
    name_of_line,
)
from onward.breaker import ASKED_FOR_PROBE, BreakerState, released
from onward.drivers.sql.breakers import count_runs, read_breakers, write_breakers
from onward.drivers.sql.limits import clear, read_limits, write_limits
from onward.drivers.sql.rows import read_instant, read_job, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.jobs import BlockedBy, Job
from onward.limit import LET_AT_ONCE, LET_WITHOUT_LIMIT, Limit, LimitKind, LimitState
from onward.outcome import has_form
from onward.turn import Settlement

RIPE_AT_ONCE = 100
"""Keys whose time has come, and that one claim looks at."""
LONG_AGO = write_instant(datetime.min.replace(tzinfo=UTC))


class Shared(Struct, frozen=True):
    """What a job gives up that others may wait for."""

    serial_key: str | None
    concurrency_key: str | None = None


def admit_rows(
    ids_and_types: Sequence[tuple[str, str]], constraints: Mapping[str, Constraint], now: datetime, *, room: int
) -> Operation[Admitted]:
    """Ask for due rows, in their order, and set aside those that are refused. Those that are let the caller claims in this transaction."""
    rows = yield Statement("shared_keys", {"ids": as_json([id_ for id_, _ in ids_and_types])})
    shared = {id_: keys for id_, *keys in rows}
    candidates = [_candidate(id_, type_, shared.get(id_)) for id_, type_ in ids_and_types]
    names = sorted({name for one in candidates for name in keys_of(one)})
    ours = {row[0] for row in (yield Statement("hold_keys", {"names": as_json(names)}))}
    free = [one for one in candidates if ours.issuperset(keys_of(one))]
    breakers, alive = yield from read_breakers({one.breaker for one in free if one.breaker is not None})
    limits, running = yield from _limits({one.concurrency_key for one in free if one.concurrency_key is not None})
    in_line = [one.id for one in free if one.serial_key is not None]
    lines: list[Row] = []
    if in_line:
        lines = yield Statement("lines", {"ids": as_json(in_line), "now": write_instant(now)})
    standing = Standing(
        breakers=breakers,
        alive_probes=alive,
        limits=limits,
        running=running,
        lines={id_: SerialLine(bool(is_behind), bool(has_dead_letter)) for id_, is_behind, has_dead_letter in lines},
        held=frozenset(names) - ours,
    )
    admitted = admit(candidates, standing, constraints, now, room=room)
    yield from write_breakers(admitted.breakers, now)
    yield from write_limits(admitted.limits, now)
    for reason, ids in admitted.refused.items():
        yield Statement("refuse", {"ids": as_json(ids), "reason": reason, "now": write_instant(now)})
    for key in admitted.free_breakers:
        yield from _let("breaker", key, ASKED_FOR_PROBE, now)
    if admitted.free_limits:
        yield from let_under_limits(admitted.free_limits, now)
    return admitted


def _candidate(id_: str, type_: str, keys: list[Any] | None) -> Candidate:
    if keys is None:
        return Candidate(id=id_, type=type_, fence=0)
    # What is no text was written by hand; the claim sets such a row aside.
    fence, *named = keys
    breaker, serial_key, concurrency_key = (key if isinstance(key, str) else None for key in named)
    return Candidate(id=id_, type=type_, fence=fence + 1, breaker=breaker, serial_key=serial_key, concurrency_key=concurrency_key)


def _limits(keys: Collection[str]) -> Operation[tuple[dict[str, LimitState], dict[str, int]]]:
    if not keys:
        return {}, {}
    limits = yield from read_limits("key", keys)
    running = yield Statement("running_of_keys", {"keys": as_json(sorted(keys))})
    return limits, dict(running)


def let_go(ended: Iterable[Shared], now: datetime, *, waits: bool = True) -> Operation[int]:
    """Let the next ones ask again that wait for what these jobs held. Says how many.

    Without ``waits`` a key over which another judges is left to the next sweep: who holds keys already must not wait for others.
    """
    ended = list(ended)
    lines = {one.serial_key for one in ended if one.serial_key is not None}
    limited = {one.concurrency_key for one in ended if one.concurrency_key is not None}
    if not (lines or limited):
        return 0
    names = sorted([name_of_key(key) for key in limited] + [name_of_line(key) for key in lines])
    if waits:
        yield Statement("await_keys", {"names": as_json(names)})
    else:
        ours = {row[0] for row in (yield Statement("hold_keys", {"names": as_json(names)}))}
        lines = {key for key in lines if name_of_line(key) in ours}
        limited = {key for key in limited if name_of_key(key) in ours}
    count = yield from let_next(lines, now)
    return count + (yield from let_under_limits(limited, now))


def let_next(lines: Collection[str], now: datetime) -> Operation[int]:
    """Let the next of each line ask again. Says how many."""
    if not lines:
        return 0
    return len((yield Statement("let_next", {"keys": as_json(sorted(lines)), "now": write_instant(now)})))


def let_first(reason: BlockedBy, keys: Collection[str], now: datetime) -> Operation[int]:
    """Let the first that waits for each key ask again. Says how many."""
    if not keys:
        return 0
    rows = yield Statement("let_first", {"reason": reason, "keys": as_json(sorted(keys)), "now": write_instant(now)})
    return len(rows)


def let_under_limits(keys: Collection[str], now: datetime, said: Mapping[str, Limit | None] | None = None) -> Operation[int]:
    """Let as many of each key ask again as there is room for. ``said`` is what code says by now of some of them: another limit, or none."""
    limits, running = yield from _limits(keys)
    ones: set[str] = set()
    changed: list[LimitState] = []
    count = 0
    for key in keys:
        stored = limits.get(key)
        state = None if stored is None else as_said(stored, key, said or {})
        if stored is None or state is None:
            count += yield from _let("limit", key, LET_WITHOUT_LIMIT, now)
            continue
        state = state.now(now)
        room = min(state.room(running.get(key, 0), now), LET_AT_ONCE)
        # The state as it is then needs not to be written, and those keys are asked together.
        if room == 1 and stored.check_at is None and state.limit == stored.limit:
            ones.add(key)
            continue
        let = yield from _let("limit", key, room, now)
        count += let
        is_checked = let == room and (state.check_at is not None or not room)
        check_at = state.next_check(running.get(key, 0), now) if is_checked else None
        state = replace(state, check_at=check_at)
        if state != stored:
            changed.append(state)
    count += yield from let_first("limit", ones, now)
    yield from write_limits(changed, now)
    return count


def _let(reason: BlockedBy, key: str, most: int, now: datetime) -> Operation[int]:
    """Let the first so many that wait for a key ask again. Says how many there were."""
    if not most:
        return 0
    return len((yield Statement("let", {"reason": reason, "key": key, "limit": most, "now": write_instant(now)})))


def let_ripe(now: datetime) -> Operation[datetime | None]:
    """Let those ask again whose breaker, or whose rate, says that their moment has come. Gives the first moment after this one."""
    now_text = write_instant(now)
    first = (yield Statement("next_ripe", {"after": LONG_AGO}))[0][0]
    if first is None or first > now_text:  # in most claims nothing is ripe, and this is all
        return _instant(first)
    rows = yield Statement("ripe", {"limit": RIPE_AT_ONCE, "now": now_text})
    ripe = [row for row in rows if isinstance(row[1], str)]
    names = sorted(name_of_breaker(name) if kind == "breaker" else name_of_key(name) for kind, name, _ in ripe)
    ours = {row[0] for row in (yield Statement("hold_keys", {"names": as_json(names)}))}
    yield from let_under_limits([name for kind, name, _ in ripe if kind == "key" and name_of_key(name) in ours], now)
    yield from _let_behind([name for kind, name, _ in ripe if kind == "breaker" and name_of_breaker(name) in ours], now)
    return now if len(ripe) == RIPE_AT_ONCE else (yield from next_ripe(now))


def next_ripe(now: datetime) -> Operation[datetime | None]:
    """When the next of those that wait for a breaker or a rate may ask again, after this moment."""
    return _instant((yield Statement("next_ripe", {"after": write_instant(now)}))[0][0])


def _instant(text: str | None) -> datetime | None:
    try:
        return None if text is None else read_instant(text)
    except ValueError:  # written by hand
        return None


def _let_behind(keys: Collection[str], now: datetime) -> Operation[None]:
    """One behind each breaker that may try, and of those behind a closed one as many as its pace says."""
    breakers, _ = yield from read_breakers(keys)
    if unreadable := sorted(set(keys) - breakers.keys()):
        yield Statement("forget_moments", {"keys": as_json(unreadable)})
    changed: list[BreakerState] = []
    for key, state in breakers.items():
        if state.retry_at is None or state.retry_at > now:
            continue
        limit = state.portion if state.status == "closed" else 1
        let = yield from _let("breaker", key, limit, now)
        are_left = state.status == "closed" and let == limit
        changed.append(released(state, are_left, now))
    yield from write_breakers(changed, now)


def after_runs(done: Mapping[Any, Settlement], settled: Sequence[Settlement], now: datetime) -> Operation[None]:
    """What follows from runs that ended for their breakers, and for those that wait for what they held.

    ``done`` changed a row now. ``settled`` are those as well that an earlier try of the same turn, or the handler's own transaction, had
    stored before.
    """
    sharing = [one for one in settled if _shares(one.claim.job)]
    if not sharing:
        return
    new = {one.claim.key for one in done.values()}
    fresh: dict[Any, Settlement] = {}
    for one in sharing:
        if one.claim.key in new:
            fresh.setdefault(one.claim.key, one)
    yield from count_runs(list(fresh.values()), [one for one in sharing if one.claim.key not in new], now)
    yield from let_go((shared_by(one.claim.job, ended=one.outcome.status.is_final) for one in sharing), now)


def _shares(job: Job) -> bool:
    return job.concurrency_key is not None or job.serial_key is not None or job.breaker is not None


def shared_by(job: Job, *, ended: bool) -> Shared:
    """What a job gives up that runs no more; its place in the line it keeps until it has ``ended``."""
    return Shared(job.serial_key if ended else None, job.concurrency_key)


def clear_limit(kind: LimitKind, name: str, actor: str, now: datetime) -> Operation[bool]:
    """Forget a limit, and let those ask again that wait for it."""
    was_there = yield from clear(kind, name, actor, now)
    if was_there and kind == "key":
        yield from let_under_limits([name], now)
    return was_there


def ahead_of(job_id: str, now: datetime) -> Operation[Job | None]:
    """Read the job of the same serial key that this one waits for; a dead letter where nobody stands before it."""
    if not has_form(job_id):
        return None
    found = yield Statement("ahead", {"id": job_id, "now": write_instant(now)})
    if not found or found[0][0] is None:
        return None
    rows = yield Statement("get", {"id": found[0][0], "owner": None})
    return read_job(rows[0]) if rows else None
