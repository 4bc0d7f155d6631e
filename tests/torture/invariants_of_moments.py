"""Invariants of what the clock enqueues: each moment has one job, whoever was killed when it was due."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import pairwise

from tests.torture.evidence import Broken, Run
from tests.torture.history import EVERY, TICK

STEP = timedelta(seconds=EVERY)


def each_moment_has_one_job(run: Run) -> Broken:
    """I16: of the moments from the first to the last that was fired, none has two jobs, and none has no job."""
    moments = Counter(job.moment for job in run.rows.jobs if job.type == TICK and job.moment is not None)
    for moment, jobs in moments.items():
        if jobs > 1:
            yield f"the moment {moment.isoformat()} has {jobs} jobs"
    for one, following in pairwise(sorted(moments)):
        if following - one != STEP:
            yield f"no job is there of the moments between {one.isoformat()} and {following.isoformat()}"
