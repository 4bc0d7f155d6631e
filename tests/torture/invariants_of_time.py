"""Invariants of when: not before its time, not long after it, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from tests.torture.evidence import CLOCK, FINAL_NAMES, Broken, Run
from tests.torture.history import TICK


def nothing_starts_early(run: Run) -> Broken:
    """I12: no job is claimed before it is due, and no handler starts before its claim.

    But for one that the clock enqueues, while the file is away: a worker that begins then makes a new file, whose moments are the same
    and so their jobs' ids.
    """
    claimed: dict[tuple[str, int], float] = {}
    for row in run.rows.audit:
        if row.after != "in_progress":
            continue
        claimed[row.job_id, row.fence] = row.at
        if row.due is not None and row.at < row.due - CLOCK:
            yield f"job {row.job_id} was claimed {row.due - row.at:.3f} s before it was due"
    for event in run.of_kind("started"):
        at = claimed.get((event.job, event.fence))
        if at is None:
            yield f"job {event.job} was started with fence {event.fence}, which was never claimed"
        elif event.at < at - CLOCK and not (event.what == TICK and run.is_during("file moved away", event.at)):
            yield f"job {event.job} was started {at - event.at:.3f} s before its claim"


def all_is_drained_in_time(run: Run) -> Broken:
    """I13: every job ends, and what a killed worker held is free again within the stated time of any other worker's life, however long
    faults last meanwhile. Where each is killed in its turn, nobody is there for long enough to see that a lease has run out.
    """
    for job in run.rows.jobs:
        if job.status not in FINAL_NAMES:
            yield f"job {job.id} ({job.type}) is {job.status} still"
    for kill in run.kills:
        for row, freed in run.held_at(kill):
            longest = longest_watch(run, kill.at, freed)
            if longest > run.recovery:
                left = f"{freed - kill.at:.1f} s later, and one other was there for {longest:.1f} s of them"
                yield f"job {row.job_id} of the killed process {kill.pid} was free only {left}"


def longest_watch(run: Run, since: float, until: float) -> float:
    """For how many seconds of a time any one worker was there, without those in which a fault lasted."""
    watches = ((max(since, begin), min(until, end)) for begin, end in run.lives)
    return max((end - begin - _overlap(run.windows, begin, end) for begin, end in watches if begin < end), default=0.0)


def _overlap(windows: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(0.0, min(end, healed) - max(begin, broken)) for broken, healed in windows)


class FirstClaim(Struct, frozen=True):
    """The first claim of a job."""

    job: str
    priority: int
    due: float
    accepted: float
    began: float


def claims_are_in_order(run: Run) -> Broken:
    """I14: of two jobs that one worker claims for the first time, and that both were due and accepted, the one of the higher priority, and
    of the same priority the one that was due first, is not claimed after the other.

    Only where one transaction that writes follows the other. Elsewhere a claim passes over the rows that another transaction holds, and
    no observer knows which those were: one that was cut short has left nothing behind.
    """
    for one, other in pairs_of_claims(run):
        if other.priority > one.priority:
            yield f"job {other.job} of priority {other.priority} waited while {one.job} of priority {one.priority} was claimed"
        elif other.priority == one.priority and other.due < one.due - CLOCK:
            yield f"job {other.job} was due {one.due - other.due:.3f} s before {one.job}, and was claimed after it"


def pairs_of_claims(run: Run) -> Iterator[tuple[FirstClaim, FirstClaim]]:
    """Two first claims of one worker in turns of their own, the second of a job that the first turn could have had."""
    for claims in _first_claims(run).values():
        for one, other in combinations(sorted(claims, key=lambda claim: claim.began), 2):
            if one.began < other.began and max(other.due, other.accepted) < one.began - CLOCK:
                yield one, other


def _first_claims(run: Run) -> dict[str, list[FirstClaim]]:
    """By the worker."""
    found: dict[str, list[FirstClaim]] = defaultdict(list)
    for row in run.rows.audit if run.is_serial else ():
        job = run.jobs.get(row.job_id)
        is_first = row.after == "in_progress" and row.fence == 1
        if job is None or not is_first or row.owner is None or row.began is None or row.due is None:
            continue
        if job.id not in run.accepted_at or job.id in run.out_of_turn or job.waits_for_others:
            continue
        found[row.owner].append(FirstClaim(job.id, job.priority, row.due, run.accepted_at[job.id], row.began))
    return found
