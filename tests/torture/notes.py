"""What a handler of a run writes into the history of its process."""

from __future__ import annotations

import os
from typing import Any

from onward import JobContext
from tests.torture.history import HOME, History, Kind

history = History(role="worker") if HOME in os.environ else None


def note(kind: Kind, ctx: JobContext, **fields: Any) -> None:
    """Write that a handler has begun, or is about to end well."""
    assert history is not None
    history.write(kind, ctx.job.type, job=ctx.job.id, fence=ctx.job.fence, **fields)


def note_child(job_id: str, name: str, ctx: JobContext) -> None:
    """Write that a handler has asked for a child."""
    assert history is not None
    history.write("invoke", name, job=job_id, type=name, parent=ctx.job.id, fence=ctx.job.fence)
