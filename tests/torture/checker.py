"""Judges a run by what its processes wrote and what its store holds. Pure: values in, sentences out.

Each invariant gives a sentence for every case in which it was broken. A run in which nothing happened, or no fault fired, has shown
nothing, and fails as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.torture import invariants_of_cancels as cancels
from tests.torture import invariants_of_claims as claims
from tests.torture import invariants_of_moments as moments
from tests.torture import invariants_of_persons as persons
from tests.torture import invariants_of_requests as requests
from tests.torture import invariants_of_stores as stores
from tests.torture import invariants_of_time as times
from tests.torture import invariants_of_waits as waits
from tests.torture.evidence import Broken, Run


def something_happened(run: Run) -> Broken:
    """Jobs were accepted and run, and faults fired."""
    for kind, what in (("ok", "no job was accepted"), ("started", "no handler was started"), ("fault", "no fault fired")):
        if not run.of_kind(kind):
            yield what
    if not run.rows.audit:
        yield "the store's audit is empty"


INVARIANTS: dict[str, Callable[[Run], Broken]] = {
    "I0": something_happened,
    "I1": requests.accepted_jobs_are_there,
    "I2": requests.nothing_ran_that_was_not_sent,
    "I4": requests.business_rows_match_jobs,
    "I5": claims.leases_do_not_overlap,
    "I6": claims.completions_are_of_the_newest_claim,
    "I7": claims.one_result_for_a_run,
    "I8": claims.claims_are_bounded,
    "I9": claims.transitions_are_legal,
    "I10": claims.effects_happen_once,
    "I11": requests.one_live_job_for_a_key,
    "I12": times.nothing_starts_early,
    "I13": times.all_is_drained_in_time,
    "I14": times.claims_are_in_order,
    "I15": requests.children_come_with_their_parent,
    "I16": moments.each_moment_has_one_job,
    "I17": stores.the_store_is_sound,
    "I18": stores.files_agree,
    "I20": stores.secrets_are_kept,
    "I21": persons.paused_queues_rest,
    "I22": persons.records_add_up,
    "I24": cancels.cancelled_jobs_end,
    "I25": waits.limits_are_kept,
    "I26": waits.lines_are_in_order,
    "I27": waits.open_breakers_let_one_try,
}


def judge(run: Run) -> list[str]:
    """Give every broken case as ``I7: ...``."""
    return [f"{name}: {case}" for name, invariant in INVARIANTS.items() for case in invariant(run)]


def count(run: Run) -> dict[str, int]:
    """What the run did. I3: an unknown request may appear (``recovered``) or not."""
    starts = Counter((event.job, event.fence) for event in run.of_kind("started"))
    runs = Counter(id_ for id_, _ in starts)
    return {
        "accepted": len(run.acknowledged),
        "refused": len({event.job for event in run.of_kind("fail") if not run.invoked[event.job].rolled_back}),
        "rolled back": sum(1 for event in run.invoked.values() if event.rolled_back),
        "answered unknown": len(run.of_kind("unknown")),
        "unknown": len(run.unknown),
        "recovered": len(run.unknown & set(run.jobs)),
        "jobs": len(run.jobs),
        "completed": len(run.completions),
        "dead letters": sum(1 for job in run.rows.jobs if job.status == "dead_letter"),
        "claims": sum(1 for row in run.rows.audit if row.after == "in_progress"),
        "run more than once": sum(1 for times in runs.values() if times > 1),
        "claims killed": sum(1 for kill in run.kills for _ in run.held_at(kill)),
        "operations": len(run.invoked) + sum(row.before == "in_progress" or row.after == "in_progress" for row in run.rows.audit),
        "order checked": sum(1 for _ in times.pairs_of_claims(run)),
        "leases lost": sum(1 for row in run.rows.audit if row.before == "in_progress" and row.given_back),
        "persons cut short": sum((event.kind == "asked") - (event.kind == "answered") for event in run.events if not event.job),
        "moments": sum(1 for job in run.rows.jobs if job.moment is not None),
        "pauses": sum(1 for _ in persons.pauses(run)),
        "changed by persons": sum(action.done for action in run.rows.actions),
        "lost": sum(1 for id_ in run.acknowledged if id_ not in run.jobs),
        **cancels.count_cancels(run),
        **waits.count_waits(run),
    }
