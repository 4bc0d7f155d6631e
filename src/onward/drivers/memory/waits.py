"""Why a due job waits for others: who may begin, and who goes on once something is free."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from onward.admission import REASONS, UNCONSTRAINED, Admitted, Candidate, Constraint, SerialLine, Standing, admit, as_said
from onward.alerts import breaker_cause, breaker_opened
from onward.breaker import ASKED_FOR_PROBE, BreakerState, after_run, may_try, released
from onward.drivers.memory.alerts import open_alert, resolve_alert
from onward.drivers.memory.tables import Tables
from onward.jobs import BlockedBy, Job
from onward.limit import LET_AT_ONCE, LET_WITHOUT_LIMIT, Limit
from onward.status import Status
from onward.turn import Demand, Settlement, ending_of


def shares(job: Job) -> bool:
    """Say whether it may have to wait for others."""
    return job.breaker is not None or job.serial_key is not None or job.concurrency_key is not None


def admit_jobs(tables: Tables, jobs: Sequence[Job], demand: Demand, now: datetime, *, room: int) -> Admitted:
    """Ask for due jobs, in their order, and set aside those that are refused."""
    candidates = [
        Candidate(
            id=job.id,
            type=job.type,
            fence=job.fence + 1,
            breaker=job.breaker,
            serial_key=job.serial_key,
            concurrency_key=job.concurrency_key,
        )
        for job in jobs
    ]
    standing = Standing(
        breakers=tables.breakers,
        alive_probes=frozenset(key for key, state in tables.breakers.items() if is_probe_alive(tables, state)),
        limits={name: state for (kind, name), state in tables.limits.items() if kind == "key"},
        running=running_of_keys(tables),
        lines={job.id: _line(tables, job, now) for job in jobs if job.serial_key is not None},
    )
    admitted = admit(candidates, standing, demand.constraints, now, room=room)
    for breaker in admitted.breakers:
        tables.put_breaker(breaker, now)
    for limit in admitted.limits:
        tables.put_limit(limit, now)
    for reason, ids in admitted.refused.items():
        for job_id in ids:
            tables.put_job(replace(tables.jobs[job_id], blocked_by=reason, updated_at=now))
    for key in admitted.free_breakers:
        let(tables, "breaker", key, ASKED_FOR_PROBE, now)
    let_under_limits(tables, admitted.free_limits, now)
    return admitted


def is_probe_alive(tables: Tables, state: BreakerState) -> bool:
    """Say whether the claim of its probe is held still."""
    probe = tables.jobs.get(state.probe_id or "")
    return probe is not None and probe.fence == state.probe_fence and probe.status is Status.IN_PROGRESS


def running_of_keys(tables: Tables) -> dict[str, int]:
    """How many jobs of each concurrency key run."""
    running: dict[str, int] = {}
    for job in tables.jobs.values():
        if job.concurrency_key is not None and job.status is Status.IN_PROGRESS:
            running[job.concurrency_key] = running.get(job.concurrency_key, 0) + 1
    return running


def running_of_queue(tables: Tables, queue: str) -> int:
    """How many jobs of a queue run."""
    return sum(1 for job in tables.jobs.values() if job.queue == queue and job.status is Status.IN_PROGRESS)


def _place(job: Job) -> tuple[int, datetime, str]:
    return -job.priority, job.scheduled_at, job.id


def _line(tables: Tables, job: Job, now: datetime) -> SerialLine:
    others = [one for one in tables.jobs.values() if one.serial_key == job.serial_key and one.id != job.id]
    live = [one for one in others if one.status.is_live]
    begun = [one for one in live if one.fence > 0]
    if job.fence:
        is_behind = any(one.status is Status.IN_PROGRESS or _place(one) < _place(job) for one in begun)
    else:
        is_behind = bool(begun) or any(one.scheduled_at <= now and _place(one) < _place(job) for one in live)
    return SerialLine(is_behind, any(one.status is Status.DEAD_LETTER and one.fence > 0 for one in others))


def ahead_of(tables: Tables, job_id: str, now: datetime) -> Job | None:
    """The job of the same serial key that this one waits for; a dead letter where nobody stands before it."""
    job = tables.jobs.get(job_id)
    if job is None or job.serial_key is None:
        return None
    others = sorted((one for one in tables.jobs.values() if one.serial_key == job.serial_key and one.id != job.id), key=_place)
    live = [one for one in others if one.status.is_live]
    begun = [one for one in live if one.fence > 0]
    running = [one for one in begun if one.status is Status.IN_PROGRESS]
    before = [one for one in begun if not job.fence or _place(one) < _place(job)]
    due = [one for one in live if not (one.fence or job.fence) and one.scheduled_at <= now and _place(one) < _place(job)]
    dead = [one for one in others if one.status is Status.DEAD_LETTER and one.fence > 0]
    return next(iter([*running, *before, *due, *dead]), None)


def let_go(tables: Tables, jobs: Iterable[Job], now: datetime) -> None:
    """Let the next ones ask again that wait for what these jobs, as they are now or were when they were deleted, have given up."""
    jobs = list(jobs)
    over = [job for job in jobs if not job.status.is_live or job.id not in tables.jobs]
    let_first(tables, "serial", {job.serial_key for job in over}, now)
    let_under_limits(tables, {job.concurrency_key for job in jobs if job.id in tables.jobs or job.status.is_live}, now)


def let(tables: Tables, reason: BlockedBy, key: str, count: int, now: datetime) -> int:
    """Let the first so many ask again that wait for a key. Says how many there were."""
    waiting = [job for job in _behind(tables, reason) if _key(job, reason) == key]
    if reason != "serial":  # one that could not begin would stand for the others, but a line waits for its first
        waiting = [job for job in waiting if job.queue not in tables.paused]
    waiting = sorted(waiting, key=lambda job: (reason == "serial" and not job.fence, _place(job)))[:count]
    for job in waiting:
        tables.put_job(replace(job, blocked_by=None, updated_at=now))
    return len(waiting)


def let_first(tables: Tables, reason: BlockedBy, keys: Iterable[str | None], now: datetime) -> int:
    """Let the first of each key ask again."""
    return sum(let(tables, reason, key, 1, now) for key in keys if key is not None)


def _behind(tables: Tables, reason: BlockedBy) -> list[Job]:
    return [job for job in (tables.jobs[job_id] for job_id in tables.behind) if job.blocked_by == reason]


def _key(job: Job, reason: BlockedBy) -> str | None:
    return {"breaker": job.breaker, "limit": job.concurrency_key, "serial": job.serial_key}.get(reason)


def waiting_for(tables: Tables, reason: BlockedBy, key: str) -> int:
    """How many jobs wait for a key, for one reason."""
    return sum(1 for job in _behind(tables, reason) if _key(job, reason) == key)


def let_under_limits(tables: Tables, keys: Collection[str | None], now: datetime, said: Mapping[str, Limit | None] | None = None) -> int:
    """Let as many of each key ask again as there is room for. ``said`` is what code says by now of some of them: another limit, or none."""
    running, count = running_of_keys(tables), 0
    for key in keys:
        if key is None:
            continue
        stored = tables.limits.get(("key", key))
        state = None if stored is None else as_said(stored, key, said or {})
        if stored is None or state is None:
            count += let(tables, "limit", key, LET_WITHOUT_LIMIT, now)
            continue
        state = state.now(now)
        room = min(state.room(running.get(key, 0), now), LET_AT_ONCE)
        found = let(tables, "limit", key, room, now)
        count += found
        if room == 1 and stored.check_at is None and state.limit == stored.limit:
            continue
        is_checked = found == room and (state.check_at is not None or not room)
        state = replace(state, check_at=state.next_check(running.get(key, 0), now) if is_checked else None)
        if state != stored:
            tables.put_limit(state, now)
    return count


def let_ripe(tables: Tables, now: datetime) -> datetime | None:
    """Let those ask again whose breaker, or whose rate, says that their moment has come. Gives the first moment after this one."""
    let_under_limits(
        tables,
        [name for (kind, name), one in tables.limits.items() if kind == "key" and one.check_at is not None and one.check_at <= now],
        now,
    )
    for key, state in list(tables.breakers.items()):
        if state.retry_at is not None and state.retry_at <= now:
            limit = state.portion if state.status == "closed" else 1
            found = let(tables, "breaker", key, limit, now)
            tables.put_breaker(released(state, state.status == "closed" and found == limit, now), now)
    return next_ripe(tables, now)


def next_ripe(tables: Tables, now: datetime) -> datetime | None:
    """When the next of those that wait for a breaker or a rate may ask again, after this moment."""
    moments = [one.retry_at for one in tables.breakers.values()] + [one.check_at for one in tables.limits.values()]
    return min((one for one in moments if one is not None and one > now), default=None)


def count_run(tables: Tables, settlement: Settlement, now: datetime) -> None:
    """Count how a run ended at its breaker."""
    key = settlement.claim.job.breaker
    if key is not None:
        before = tables.breakers.get(key, BreakerState(key=key))
        put_breaker(tables, before, after_run(before, settlement.claim.key, ending_of(settlement), settlement.breaker, now), now)


def put_breaker(tables: Tables, before: BreakerState, after: BreakerState, now: datetime, *, by_hand: bool = False) -> None:
    """Write a changed breaker, and tell of it."""
    if after == before:
        return
    tables.put_breaker(after, now)
    if before.status == "closed" and after.status != "closed":
        open_alert(tables, breaker_opened(after, by_hand=by_hand), now)
    elif before.status != "closed" and after.status == "closed":
        resolve_alert(tables, breaker_cause(after.key), now)


def recheck(tables: Tables, now: datetime, types: Collection[str], constraints: Mapping[str, Constraint]) -> int:
    """Let those ask again who wait for nothing any more. ``constraints`` is what code says of ``types``."""
    count = 0
    for reason in REASONS:
        keys = {key for job in _behind(tables, reason) if (key := _key(job, reason)) is not None}
        if reason == "limit":
            first = {key: min((job for job in _behind(tables, reason) if job.concurrency_key == key), key=_place) for key in keys}
            said = {key: constraints.get(job.type, UNCONSTRAINED).limit for key, job in first.items() if job.type in types}
            count += let_under_limits(tables, keys, now, said)
        elif reason == "serial":
            begun = [one for one in tables.jobs.values() if one.fence > 0 and one.status.is_live]
            held = {one.serial_key for one in begun if one.blocked_by != "serial"}
            count += let_first(tables, "serial", keys - held, now)
        else:
            count += sum(_recheck_breaker(tables, key, now) for key in keys)
    return count


def _recheck_breaker(tables: Tables, key: str, now: datetime) -> int:
    state = tables.breakers.get(key, BreakerState(key=key))
    if state.status == "closed":
        if state.retry_at is None or state.retry_at > now + state.portion * state.pace.interval:
            tables.put_breaker(replace(state, retry_at=now), now)
        return 0
    return let(tables, "breaker", key, 1, now) if may_try(state, is_probe_alive(tables, state), now) else 0


def forget_idle(tables: Tables, before: datetime) -> None:
    """Forget closed breakers that count nothing, and limits of keys that nobody waits for or runs under, if nobody needed them since."""
    needed = {job.concurrency_key for job in tables.jobs.values() if job.status is Status.IN_PROGRESS or job.blocked_by == "limit"}
    for key, breaker in list(tables.breakers.items()):
        if breaker.status == "closed" and not breaker.failures and breaker.retry_at is None and tables.changed["breaker", key] <= before:
            tables.remove_breaker(key)
    for (kind, name), limit in list(tables.limits.items()):
        is_idle = kind == "key" and not limit.is_by_hand and limit.check_at is None and (limit.spent_until or before) <= before
        if is_idle and name not in needed and tables.changed[kind, name] <= before:
            tables.remove_limit(kind, name)
