"""Which queues there are, and how many of their jobs wait or run."""

from __future__ import annotations

from collections import Counter

from onward.drivers.memory.tables import Tables
from onward.inspection import Queue
from onward.status import Status


def list_queues(tables: Tables) -> list[Queue]:
    """Those that are paused, and those with jobs that are not done with, by name."""
    jobs = [job for job in tables.jobs.values() if not job.status.is_final]
    counts = Counter((job.queue, job.status is Status.IN_PROGRESS) for job in jobs)
    return [
        Queue(name=name, paused_at=tables.paused.get(name), waiting=counts[name, False], in_progress=counts[name, True])
        for name in sorted({job.queue for job in jobs} | tables.paused.keys())
    ]
