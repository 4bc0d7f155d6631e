"""``JobHandle``: what an enqueue returns."""

from __future__ import annotations

from collections.abc import Callable

from onward.errors import InvalidDefinition
from onward.jobs import Accepted, Job
from onward.spelling import shown


class JobHandle:
    """What ``enqueue`` returns: which job stands for the request."""

    def __init__(self, accepted: Accepted, read: Callable[[str], Job]) -> None:
        self._read = read
        self.id = accepted.id
        self.is_new = accepted.is_new
        """False when a job that held the key, or the same request, stands for this one."""
        self.payload_differs = accepted.payload_differs
        """True when that job has another payload."""

    def refresh(self) -> Job:
        """Read the job as it is now. Raises ``JobNotFound`` when it was pruned, or its transaction has not committed."""
        return self._read(self.id)

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}{'' if self.is_new else ' (existing)'}>"


def id_of(job: JobHandle | str, verb: str) -> str:
    """The id that was given to a verb of the application, also as the handle of the job. Raises ``InvalidDefinition`` for anything else."""
    if isinstance(job, JobHandle):
        return job.id
    if not isinstance(job, str):
        raise InvalidDefinition(f"{verb} takes the id of a job, not {shown(job)}: give its id, such as handle.id")
    return job
