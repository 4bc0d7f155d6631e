"""Invariants of what callers, and handlers, asked for: what was accepted is there, what was not is not."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from tests.torture.evidence import CLOCK, FINAL_NAMES, Broken, Run
from tests.torture.store import AuditRow, JobRow


def accepted_jobs_are_there(run: Run) -> Broken:
    """I1: no accepted job is missing."""
    for id_, event in run.acknowledged.items():
        if id_ not in run.jobs:
            yield f"job {id_} was accepted ({event.what}, process {event.pid}) and is not stored"


def nothing_ran_that_was_not_sent(run: Run) -> Broken:
    """I2: what is stored or was started had been asked for; what was rolled back, or refused, is never seen."""
    refused = {event.job: event for event in run.of_kind("fail")}
    seen = {event.job for event in run.of_kind("started")} | set(run.jobs)
    for id_ in sorted(seen):
        if id_ in run.jobs and run.jobs[id_].moment is not None:
            continue  # the clock has asked for it
        if id_ not in run.invoked:
            yield f"job {id_} was never asked for, and is there"
        elif run.invoked[id_].rolled_back:
            yield f"job {id_} was rolled back, and is there"
        elif id_ in refused:
            yield f"job {id_} was refused ({refused[id_].detail}), and is there"


def business_rows_match_jobs(run: Run) -> Broken:
    """I4: a sender's own row and its job are there together, or neither is."""
    orders = set(run.rows.orders)
    joined = {id_ for id_, event in run.invoked.items() if event.what in ("transaction", "within")}
    for id_ in sorted(orders - set(run.jobs)):
        yield f"the row of job {id_} is there without its job"
    for id_ in sorted(joined & set(run.jobs) - orders):
        yield f"job {id_} is there without the row that was written with it"


def one_live_job_for_a_key(run: Run) -> Broken:
    """I11: the lives of the jobs with one key do not overlap, all callers are given one of them, and none that is over holds it."""
    by_key: dict[str, list[JobRow]] = defaultdict(list)
    for job in run.rows.jobs:
        if job.key is not None:
            by_key[job.key].append(job)
    for key, jobs in by_key.items():
        lives = sorted((run.audit[job.id][0].at, _end_of(run.audit[job.id]), job.id) for job in jobs if run.audit.get(job.id))
        for (_, end, first), (begin, _, second) in pairwise(lives):
            if begin < end - CLOCK:
                yield f"jobs {first} and {second} were live with key {key!r} at once, for {end - begin:.3f} s"
    for event in run.of_kind("ok"):
        if event.key and (event.holder not in run.jobs or run.jobs[event.holder].key != event.key):
            yield f"process {event.pid} asked for key {event.key!r} and was given job {event.holder}, which has another or none"
    for key, holder in run.rows.keys:
        if holder not in run.jobs or run.jobs[holder].status in FINAL_NAMES:
            yield f"key {key!r} is held by job {holder}, which is over"


def _end_of(changes: list[AuditRow]) -> float:
    return next((row.at for row in changes if row.after in FINAL_NAMES), float("inf"))


def children_come_with_their_parent(run: Run) -> Broken:
    """I15: a child is stored exactly if the run that asked for it completed its parent."""
    for id_, event in run.asked_children.items():
        completion = run.completions.get(event.parent)
        bore = completion is not None and completion.fence == event.fence
        if bore != (id_ in run.jobs):
            there, ended = "is there" if id_ in run.jobs else "is missing", "completed" if bore else "did not complete"
            yield f"child {id_} of job {event.parent}, fence {event.fence}, {there}, and that run {ended} its job"
