"""Invariants of claims and what ends them: one holder at a time, one result a run, no try too many."""

from __future__ import annotations

from collections import Counter, defaultdict

from onward.status import CLAIMABLE, TRANSITIONS
from tests.torture.evidence import CLOCK, FINAL_NAMES, Broken, Run

TRANSACTIONAL = frozenset({"effect", "forks_inside"})
"""Types whose handlers write in the transaction of their completion."""
_LEGAL = {(str(before), str(after)) for (before, _), possible in TRANSITIONS.items() for after in possible}
_CLAIMABLE = frozenset(str(status) for status in CLAIMABLE)


def leases_do_not_overlap(run: Run) -> Broken:
    """I5: a claim is made only of a job that nobody holds, each fence is one more than the last, and no sweep takes a lease that runs."""
    for row in run.rows.audit:
        if row.after == "in_progress" and row.before not in _CLAIMABLE:
            yield f"job {row.job_id} was claimed with fence {row.fence} while it was {row.before or 'not stored'}"
        expected = row.fence_before + (row.after == "in_progress")
        if row.fence != expected:
            yield f"job {row.job_id} went from fence {row.fence_before} to {row.fence} as it became {row.after}"
        if row.ran_out and row.lease_until is not None and row.lease_until > row.at + CLOCK:
            yield f"job {row.job_id}, fence {row.fence}, was swept {row.lease_until - row.at:.3f} s before its lease ran out"


def completions_are_of_the_newest_claim(run: Run) -> Broken:
    """I6: a job is completed only by the run that holds its newest fence, which has come to its end before."""
    for id_, row in run.completions.items():
        end = run.ended.get((id_, row.fence))
        if end is None:
            yield f"job {id_} was completed at fence {row.fence}, and no run with that fence came to its end"
        elif end.at > row.at + CLOCK:
            yield f"job {id_} was completed {end.at - row.at:.3f} s before its run with fence {row.fence} came to its end"


def one_result_for_a_run(run: Run) -> Broken:
    """I7: a job becomes final once, and once more for each retry by a person; each claim has one row of history, with the outcome that the
    job's row shows.
    """
    for id_, changes in run.audit.items():
        finals = [row.after for row in changes if row.after in FINAL_NAMES]
        if len(finals) > 1 + sum(map(run.is_retry_by_hand, changes)):
            yield f"job {id_} became final {len(finals)} times: {', '.join(finals)}"
    attempts = Counter((id_, fence) for id_, fence, _ in run.rows.attempts)
    claims = {(row.job_id, row.fence) for row in run.rows.audit if row.after == "in_progress"}
    for id_, fence in sorted(claims - set(attempts)):
        if id_ in run.jobs and run.jobs[id_].status in FINAL_NAMES:
            yield f"job {id_}, fence {fence}: the claim has no row in the history"
    for id_, fence in sorted(set(attempts) - claims):
        yield f"job {id_}, fence {fence}: a row in the history, and no such claim"
    completed = {id_: fence for id_, fence, outcome in run.rows.attempts if outcome == "completed"}
    for id_, row in run.completions.items():
        if completed.get(id_) != row.fence:
            yield f"job {id_} was completed at fence {row.fence}, and its history says {completed.get(id_)}"


def claims_are_bounded(run: Run) -> Broken:
    """I8: no claim goes beyond ``max_attempts``; a try is given back only with what is counted; a process killer has one claim more."""
    for row in run.rows.audit:
        job = run.jobs.get(row.job_id)
        if job is None:
            continue
        if row.after == "in_progress" and row.attempts > job.max_attempts:
            yield f"job {job.id} was claimed for try {row.attempts} of {job.max_attempts}"
        if row.attempts < row.attempts_before and not row.given_back and not run.is_retry_by_hand(row):
            yield f"job {job.id}, fence {row.fence}: a try was given back for nothing"
        if row.attempts < row.attempts_before and row.ran_isolated and row.ran_out:
            yield f"job {job.id}, fence {row.fence}: it had its process to itself, and the try was given back"
    given_back = Counter[str]()
    for row in run.rows.audit:
        given_back[row.job_id] += row.attempts < row.attempts_before
    for job in run.rows.jobs:
        if job.fence > job.max_attempts + given_back[job.id]:
            yield f"job {job.id} was claimed {job.fence} times with {job.max_attempts} tries and {given_back[job.id]} given back"


def transitions_are_legal(run: Run) -> Broken:
    """I9: every change is an arrow of the table, and each begins where the last one ended."""
    for id_, changes in run.audit.items():
        status = ""
        for row in changes:
            if row.before != status:
                yield f"job {id_} was {status or 'not stored'}, and then left {row.before}"
            legal = row.after == "queued" if row.before == "" else (row.before, row.after) in _LEGAL
            if not legal or (row.before in FINAL_NAMES and not run.is_retry_by_hand(row)):
                yield f"job {id_} went from {row.before or 'nothing'} to {row.after} (fence {row.fence})"
            status = row.after
        if id_ in run.jobs and run.jobs[id_].status != status:
            yield f"job {id_} is {run.jobs[id_].status}, and its last change made it {status}"


def effects_happen_once(run: Run) -> Broken:
    """I10: what a run's transaction writes is there once for a completed job, and never for another; other work ran at least once."""
    effects: dict[str, list[int]] = defaultdict(list)
    for id_, fence in run.rows.effects:
        effects[id_].append(fence)
    started = {event.job for event in run.of_kind("started")}
    for job in run.rows.jobs:
        found = effects.pop(job.id, [])
        is_completed = job.status == "completed"
        if is_completed and job.type in TRANSACTIONAL and found != [job.fence]:
            yield f"job {job.id} was completed at fence {job.fence}, and its effects bear the fences {found}"
        if found and (not is_completed or found != [job.fence]) and not (is_completed and job.type in TRANSACTIONAL):
            yield f"job {job.id} is {job.status} at fence {job.fence}, and its effects bear the fences {found}"
        if is_completed and job.id not in started:
            yield f"job {job.id} is completed, and no handler ever started"
    for id_ in effects:
        yield f"job {id_} has effects and is not stored"
