"""One verb of a person's for many jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from onward.drivers.memory import people
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.waits import let_go
from onward.errors import DuplicateJob, IllegalTransition, JobNotFound
from onward.inspection import MEANT_FOR, Acted, BulkVerb
from onward.jobs import Job
from onward.status import Status

Act: TypeAlias = Callable[[Tables, str, datetime], Job]
VERBS: Mapping[BulkVerb, Act] = {
    "cancel": lambda tables, job_id, now: people.cancel(tables, job_id, None, now, frees=False),
    "retry": lambda tables, job_id, now: people.retry(tables, job_id, None, now),
    "run_now": lambda tables, job_id, now: people.run_now(tables, job_id, None, now),
    "delete": lambda tables, job_id, now: people.delete(tables, job_id, None, now, frees=False),
}


def act(tables: Tables, verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status], now: datetime) -> Acted:
    """Do it to each that still has one of these statuses; what refuses it changes nothing of that job. Then let those go on that wait."""
    done: dict[str, Job] = {}
    refused: dict[str, str] = {}
    for job_id in job_ids:
        job = tables.jobs.get(job_id)
        if job is not None and job.status not in statuses and job.status in MEANT_FOR[verb]:
            refused[job_id] = f"job {job_id} is {job.status} by now"
            continue
        try:
            with tables.all_or_nothing():
                done[job_id] = VERBS[verb](tables, job_id, now)
        except (IllegalTransition, JobNotFound, DuplicateJob) as refusal:
            refused[job_id] = str(refusal)
    if verb in ("cancel", "delete"):
        let_go(tables, [job for job in done.values() if job.status is not Status.IN_PROGRESS], now)
    return Acted(tuple(done), refused)
