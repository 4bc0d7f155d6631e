"""A worker dies between the request for the end of what it runs, and that end."""

from __future__ import annotations

from onward.errors import OnwardError
from tests.torture import cancelled
from tests.torture.application import LEASE
from tests.torture.faults.kinds import Fault, kill, last
from tests.torture.fleet import Fleet

LONGEST = 4
"""The number with which a handler takes the longest."""


def cancel_and_kill(fleet: Fleet) -> None:
    """SIGKILL a worker process soon after the job that it runs was cancelled, once it has heard of it or before."""
    is_killed = False
    while not is_killed:  # the job may have ended meanwhile
        job_id = fleet.enqueue(fleet.chance.choice(cancelled.LONG), LONGEST)
        fleet.wait_for(lambda: _holder(fleet, job_id) is not None, f"job {job_id} ran")  # noqa: B023 - waited for here
        holder = _holder(fleet, job_id)
        cancelled.ask(fleet.app, fleet.history.write, job_id)
        last(fleet.chance.uniform(0, 0.2 * LEASE))
        is_killed = bool(holder) and kill(fleet, "cancel and kill worker", holder)


def _holder(fleet: Fleet, job_id: str) -> int | None:
    """The process that has it; 0 once it has ended, and None while it waits, or nobody can say."""
    try:
        job = fleet.app.get(job_id)
    except OnwardError:
        return None
    if job.status.is_final:
        return 0
    return None if job.lease_owner is None else int(job.lease_owner.split(":")[1])


FAULTS = (Fault("cancel and kill worker", 1, cancel_and_kill, quick=2),)
