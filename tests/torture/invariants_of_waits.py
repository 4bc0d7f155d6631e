"""Invariants of jobs that wait for others: limits, serial order, breakers.

All are judged by the order in which the store made its changes, which needs no clock: who begins is judged over by one claim at a time, and
what it relies on has been committed before. A claim counts until its store ends it, so that one whose process was killed or frozen counts
until its lease is over.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations

from msgspec import Struct

from tests.torture.evidence import CLOCK, FINAL_NAMES, Broken, Run
from tests.torture.store import AuditRow, BreakerRow, JobRow
from tests.torture.waiting import AT_ONCE


def limits_are_kept(run: Run) -> Broken:
    """I25: of the jobs of one concurrency key never more are claimed at once than its limit says, and never more of their handlers are
    under way whose claims hold still.
    """
    running: Counter[str] = Counter()
    for row, job in _changes(run, lambda job: job.concurrency_key):
        key = str(job.concurrency_key)
        running[key] += (row.after == "in_progress") - (row.before == "in_progress")
        if row.after == "in_progress" and running[key] > AT_ONCE:
            yield f"job {job.id}, fence {row.fence}, was claimed as one of {running[key]} of the key {key}"
    for key, runs in _handlers(run).items():
        moments = sorted([(one.begin, 1) for one in runs] + [(one.end - CLOCK, -1) for one in runs if one.end - CLOCK > one.begin])
        at_once = most = 0
        for _, step in moments:
            at_once += step
            most = max(most, at_once)
        if most > AT_ONCE:
            yield f"{most} handlers of the key {key} were under way at once"


class Under(Struct, frozen=True):
    """A handler's time, as far as its claim held."""

    begin: float
    end: float


def _handlers(run: Run) -> dict[str, list[Under]]:
    """By concurrency key."""
    found: dict[str, list[Under]] = defaultdict(list)
    ends = {(row.job_id, row.fence): row.at for row in run.rows.audit if row.before == "in_progress"}
    for event in run.of_kind("started"):
        job, name = run.jobs.get(event.job), (event.job, event.fence)
        if job is None or job.concurrency_key is None:
            continue
        end = min(ends.get(name, float("inf")), run.ended[name].at if name in run.ended else float("inf"))
        if end - CLOCK > event.at:
            found[job.concurrency_key].append(Under(event.at, end))
    return found


def lines_are_in_order(run: Run) -> Broken:
    """I26: of the jobs of one serial key none is claimed before the one that was begun has ended, with all its tries; and each is begun
    behind those that come before it and were due and accepted.
    """
    begun: dict[str, str] = {}
    first: dict[str, list[AuditRow]] = defaultdict(list)
    for row, job in _changes(run, lambda job: job.serial_key):
        key = str(job.serial_key)
        if row.after == "in_progress":
            if begun.setdefault(key, job.id) != job.id:
                yield f"job {job.id}, fence {row.fence}, was claimed while job {begun[key]} of the line {key} had not ended"
            if row.fence == 1:
                first[key].append(row)
        elif row.after in FINAL_NAMES and begun.get(key) == job.id:
            del begun[key]
    for key, claims in first.items():
        for one, other in combinations(claims, 2):
            if _could_have_been_first(run, other, one) and _place(run, other) < _place(run, one):
                yield f"job {one.job_id} of the line {key} was begun before job {other.job_id}, which comes before it"


def _could_have_been_first(run: Run, row: AuditRow, other: AuditRow) -> bool:
    """Say whether this job was there to be seen, and due, when the other one was claimed."""
    accepted = run.accepted_at.get(row.job_id)
    return accepted is not None and other.began is not None and max(accepted, row.due or 0.0) < other.began - CLOCK


def _place(run: Run, row: AuditRow) -> tuple[int, float, str]:
    return -run.jobs[row.job_id].priority, row.due or 0.0, row.job_id


def open_breakers_let_one_try(run: Run) -> Broken:
    """I27: no job is claimed while its breaker is open, and of one that is half-open only the probe; a new probe follows only when the
    claim of the last one has ended.
    """
    states: dict[str, BreakerRow] = {}
    held: set[tuple[str, int]] = set()
    changes: list[AuditRow | BreakerRow] = sorted([*run.rows.audit, *run.rows.breakers], key=lambda row: row.number)
    for row in changes:
        if isinstance(row, BreakerRow):
            before = states.get(row.key)
            if row.after == "half_open" and before is not None and before.after == "half_open" and before.probe in held:
                yield f"the breaker {row.key} tried with job {row.probe[0]} while its probe, job {before.probe[0]}, ran still"
            states[row.key] = row
            continue
        held.discard((row.job_id, row.fence_before))
        if row.after != "in_progress":
            continue
        held.add((row.job_id, row.fence))
        job = run.jobs.get(row.job_id)
        state = None if job is None or job.breaker is None else states.get(job.breaker)
        if state is not None and state.after != "closed" and state.probe != (row.job_id, row.fence):
            yield f"job {row.job_id}, fence {row.fence}, was claimed while the breaker {state.key} was {state.after}"


def _changes(run: Run, key: Callable[[JobRow], str | None]) -> Iterator[tuple[AuditRow, JobRow]]:
    """The changes of jobs that have such a key, in the order in which the store made them."""
    for row in run.rows.audit:
        job = run.jobs.get(row.job_id)
        if job is not None and key(job) is not None:
            yield row, job


def count_waits(run: Run) -> dict[str, int]:
    """What was seen of them."""
    after = Counter(row.after for row in run.rows.breakers)
    return {
        "jobs under a limit": sum(1 for job in run.rows.jobs if job.concurrency_key is not None),
        "jobs in a line": sum(1 for job in run.rows.jobs if job.serial_key is not None),
        "breakers opened": sum(1 for row in run.rows.breakers if (row.before or "closed", row.after) == ("closed", "open")),
        "probes": after["half_open"],
    }
