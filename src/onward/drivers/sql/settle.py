"""Settle as an operation: the row, then, only for what was really settled, keys, children and history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from onward.drivers.sql.enqueue import enqueue_what_may
from onward.drivers.sql.rows import read_jobs, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.drivers.sql.waits import after_runs
from onward.jobs import Job
from onward.outcome import Completed, Ending, as_stored, end_settled, has_form, is_stored, storable, yields_to_cancel
from onward.turn import Settlement, check_settlements

Name: TypeAlias = tuple[str, int]
"""Of a claim: the job's id and its fence."""
SHARED_FENCE_FROM = 8
"""Claims with the same fence and no result that are worth a statement of their own: most are a first try, so there is mostly one."""


class Settled(Struct, frozen=True):
    """Which settlements hold, and which were refused."""

    settled: tuple[Settlement, ...] = ()
    lost: tuple[Settlement, ...] = ()


def settle(settlements: Sequence[Settlement], now: datetime, *, frees: bool = True) -> Operation[Settled]:
    """Store how these claims ended. A refused one changes nothing and does not undo its neighbours. Raises ``ValueRefused``.

    ``frees`` counts the runs at their breakers, and lets those go on that wait for what they held: not in a transaction that may be long,
    since others would wait for it; the worker's turn behind it does it then.
    """
    check_settlements(settlements)
    now_text = write_instant(now)
    named: dict[Name, Settlement] = {}
    for one in settlements:
        named.setdefault(one.claim.key, one)
    plain = {name: one for name, one in named.items() if _is_plain(one)}
    ended: set[Name] = set()
    if plain:
        ended.update((yield from _complete(plain, now_text)))
    endings: dict[Name, Ending] = {}
    asked: Collection[str] = ()
    if len(plain) < len(named):
        others = {name: one for name, one in named.items() if name not in plain}
        asked = yield from _asked_to_cancel(others.values())
        endings = {name: end_settled(one.claim.job, one.outcome, is_cancel_requested=one.claim.id in asked) for name, one in others.items()}
        changes = [_change(one, endings[name], now) for name, one in others.items()]
        ended.update((yield Statement("settle", {"rows": as_json(changes), "now": now_text})))
    done = {name: one for name, one in named.items() if name in ended}
    yield from _after(done, endings, now)
    if len(done) == len(settlements):
        settled = Settled(tuple(_as_stored(one, one.claim.id in asked) for one in settlements) if endings else tuple(settlements))
    else:
        settled = yield from _sort_out(settlements, {id(one): one.claim.id in asked for one in done.values()})
    if frees:
        yield from after_runs(done, settled.settled, now)
    return settled


def _complete(plain: Mapping[Name, Settlement], now_text: str) -> Operation[list[Row]]:
    rows: list[tuple[str, int, str | None]] = []
    without_result: dict[int, list[str]] = defaultdict(list)
    for (id_, fence), one in plain.items():
        result = one.outcome.result  # type: ignore[union-attr]
        if result is None:
            without_result[fence].append(id_)
        else:
            rows.append((id_, fence, result))
    ended: list[Row] = []
    for fence, ids in without_result.items():
        if len(ids) < SHARED_FENCE_FROM:
            rows += [(id_, fence, None) for id_ in ids]
        else:
            ended += yield Statement("complete_without_result", {"ids": as_json(ids), "fence": fence, "now": now_text})
    if rows:
        ended += yield Statement("complete", {"rows": as_json(rows), "now": now_text})
    return ended


def _is_plain(settlement: Settlement) -> bool:
    outcome = settlement.outcome
    if type(outcome) is not Completed or outcome.error is not None or settlement.progress is not None:
        return False
    return outcome.result is None or has_form(outcome.result)


def _asked_to_cancel(settlements: Iterable[Settlement]) -> Operation[frozenset[str]]:
    """Which of these jobs are to be cancelled if they did not complete. It stays true: this transaction may write and no other."""
    yielding = [one.claim.id for one in settlements if yields_to_cancel(one.outcome)]
    if not yielding:
        return frozenset()
    rows = yield Statement("asked_to_cancel", {"ids": as_json(yielding)})
    return frozenset(row[0] for row in rows)


def _as_stored(settlement: Settlement, is_cancel_requested: bool) -> Settlement:
    stored = as_stored(settlement.outcome, is_cancel_requested=is_cancel_requested)
    return settlement if stored is settlement.outcome else replace(settlement, outcome=stored)


def _change(settlement: Settlement, ending: Ending, now: datetime) -> dict[str, Any]:
    progress = None if settlement.progress is None else storable(settlement.progress)
    return write_ending(settlement.claim.job, ending, now) | {"progress": progress}


def write_ending(job: Job, ending: Ending, now: datetime) -> dict[str, Any]:
    """Give what ``settle`` and ``lose`` write into the row of a claim."""
    return {
        "id": job.id,
        "fence": job.fence,
        "status": ending.status.value,
        "attempts": ending.attempts,
        "lost_leases": ending.lost_leases,
        "releases": ending.releases,
        "snoozes": ending.snoozes,
        "isolated": int(ending.isolated),
        "error": ending.error,
        "result": ending.result,
        "scheduled_at": None if ending.delay is None else write_instant(now + ending.delay),
        "finished_at": write_instant(now) if ending.status.is_final else None,
    }


def write_attempt(job: Job, ending: Ending, now: datetime, processed: int = 0, failed: int = 0) -> dict[str, Any]:
    """Give what ``write_history`` writes for a claim. ``job`` is as claimed."""
    return {
        "job_id": job.id,
        "fence": job.fence,
        "attempt": job.attempts,
        "lease_owner": job.lease_owner,
        "outcome": ending.name,
        "error": ending.reason,
        "processed": processed,
        "failed": failed,
        "started_at": None if job.started_at is None else write_instant(job.started_at),
        "finished_at": write_instant(now),
    }


def _after(done: Mapping[Name, Settlement], endings: Mapping[Name, Ending], now: datetime) -> Operation[None]:
    """What follows from endings that were really stored: keys, history, children."""
    freed = [
        one.claim.id
        for name, one in done.items()
        if one.claim.job.idempotency_key is not None and ((ending := endings.get(name)) is None or ending.status.is_final)
    ]
    if freed:
        yield Statement("free_keys", {"ids": as_json(freed)})
    kept = {name: one for name, one in done.items() if one.keeps_history or not isinstance(one.outcome, Completed)}
    if kept:
        rows = [
            write_attempt(one.claim.job, endings.get(name) or _completed(one), now, one.processed, one.failed) for name, one in kept.items()
        ]
        yield Statement("write_history", {"rows": as_json(rows)})
    children = [child for one in done.values() if one.children and isinstance(one.outcome, Completed) for child in one.children]
    if children:
        # An id that belongs to another job is left out, and a key that is held, whatever the child asks for then: a completion stands.
        yield from enqueue_what_may(children, now)


def _completed(settlement: Settlement) -> Ending:
    return end_settled(settlement.claim.job, settlement.outcome, is_cancel_requested=False)


def _sort_out(settlements: Sequence[Settlement], stored: Mapping[int, bool]) -> Operation[Settled]:
    """Look at the rows that did not change: perhaps an earlier try of the same turn had changed them before its answer was lost.

    ``stored`` says of the settlements that did change a row whether a person had asked to cancel the job.
    """
    missing = [one for one in settlements if id(one) not in stored]
    rows = yield Statement("shown", {"ids": as_json([one.claim.id for one in missing])})
    shown = {job.id: job for job in read_jobs(rows)[0]}
    settled: list[Settlement] = []
    lost: list[Settlement] = []
    for one in settlements:
        row = shown.get(one.claim.id)
        if id(one) in stored:
            settled.append(_as_stored(one, stored[id(one)]))
        elif row is not None and is_stored(row, one.claim.job, one.outcome):
            settled.append(_as_stored(one, row.cancel_requested_at is not None))
        else:
            lost.append(one)
    return Settled(tuple(settled), tuple(lost))
