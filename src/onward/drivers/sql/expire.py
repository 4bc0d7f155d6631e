"""The end of waiting jobs whose time is over."""

from __future__ import annotations

from collections.abc import Sequence

from onward.drivers.sql.rollups import count_unsettled
from onward.drivers.sql.rows import read_instant, read_jobs
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Statement, as_json
from onward.drivers.sql.waits import let_go, shared_by
from onward.jobs import Job


def expire(ids: Sequence[str], now_text: str) -> Operation[list[Job]]:
    """Cancel those of these jobs that still wait past ``expires_at``, and free their keys. Gives the jobs as they are then."""
    rows = yield Statement("expire", {"ids": as_json(ids), "now": now_text})
    yield Statement("free_keys", {"ids": as_json([row[0] for row in rows])})
    jobs, unreadable = read_jobs(rows)
    yield from count_unsettled("expired", jobs, read_instant(now_text))
    # Within a claim, which may hold keys already.
    yield from let_go((shared_by(job, ended=True) for job in jobs), read_instant(now_text), waits=False)
    yield from set_aside(unreadable, now_text)
    return jobs
