"""``JobHandle``: what an enqueue returns, and how one waits for the job's end."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

from onward.durations import format_duration, parse_duration
from onward.errors import InvalidDefinition, JobNotEnded, StoreBusy, StoreError, StoreUnavailable
from onward.jobs import Accepted, Job
from onward.spelling import shown
from onward.steps import drive, drive_awaited

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
"""Seconds between two looks at a job that somebody waits for."""
PART_OF_WAIT = 8
"""A pause is this part of what was waited for already: the end is noticed soon for its time, and long waits cost next to nothing."""

Waiting = Generator[float, Job, Job]


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

    def wait(self, timeout: timedelta | float | str | None = None) -> Job:
        """Wait until the job has ended, however it did, and give it as it is then; ``result`` in it is JSON text.

        A retry is no end. Raises ``JobNotEnded`` when ``timeout`` is over, which does not touch the job; ``JobNotFound`` as ``refresh``. A
        store that cannot be reached for a while is looked at again; ``StoreUnavailable`` says that it could not when the time was over.
        In a handler it holds a slot while it waits, perhaps the last one that the other job could run in.
        """

        def look(pause: float) -> Job:
            time.sleep(pause)
            return self.refresh()

        return drive(look, wait_until_ended(None if timeout is None else parse_duration(timeout)))

    def __await__(self) -> Generator[Any, None, Job]:
        """``await handle`` is ``wait`` for code on an event loop; ``asyncio.timeout`` limits it."""
        return self._awaited().__await__()

    async def _awaited(self) -> Job:
        from asyncio import sleep, to_thread

        async def look(pause: float) -> Job:
            await sleep(pause)
            return await to_thread(self.refresh)

        return await drive_awaited(look, wait_until_ended(None))

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}{'' if self.is_new else ' (existing)'}>"


def wait_until_ended(timeout: timedelta | None, monotonic: Callable[[], float] = time.monotonic) -> Waiting:
    """Yields how many seconds to pause before the next look, and is sent the job as it is then. Raises as ``JobHandle.wait``."""
    began = monotonic()
    pause = 0.0
    failed: StoreError | None = None
    job: Job | None = None
    while True:
        try:
            job, failed = (yield pause), None
        except (StoreBusy, StoreUnavailable) as error:
            if getattr(error, "is_lasting", False):
                raise
            failed = error
        if job is not None and job.status.is_final:
            return job
        waited = monotonic() - began
        pause = min(max(waited / PART_OF_WAIT, FIRST_PAUSE), LONGEST_PAUSE)
        if timeout is not None:
            left = timeout.total_seconds() - waited
            if left <= 0 and failed is not None:
                raise failed
            if left <= 0 and job is not None:
                raise JobNotEnded(
                    f"waited {format_duration(timeout)} for job {job.id}, which is still {job.status.value}; nothing of it has changed",
                    job=job,
                )
            pause = min(pause, left)


def id_of(job: JobHandle | str, verb: str) -> str:
    """The id that was given to a verb of the application, also as the handle of the job. Raises ``InvalidDefinition`` for anything else."""
    if isinstance(job, JobHandle):
        return job.id
    if not isinstance(job, str):
        raise InvalidDefinition(f"{verb} takes the id of a job, not {shown(job)}: give its id, such as handle.id")
    return job
