"""What people and programs do with jobs that are there: look, stop, hurry, repeat, forget, and pause their queues."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from onward.actions import Action, check_actor
from onward.attempts import AttemptFilter, Attempts, read_end, read_outcome, read_place
from onward.awaited import awaited
from onward.bulk import BulkResult, OnProgress, run_bulk
from onward.definition import JobDefinition, check_name
from onward.driver import Store
from onward.errors import InvalidDefinition
from onward.handle import JobHandle, id_of
from onward.ids import is_id
from onward.inspection import BulkVerb, JobFilter, Queue
from onward.jobs import HIGHEST_COUNT, Attempt, Job
from onward.rate import parse_rate
from onward.spelling import did_you_mean, shown
from onward.status import Status
from onward.unique import check_key


class JobVerbs:
    """The part of an application that needs its store and nothing else."""

    store: Store

    def get(self, job_id: JobHandle | str, *, owner: str | None = None) -> Job:
        """Read one job. Raises ``JobNotFound``, also for another owner's job."""
        return self.store.get(id_of(job_id, "get"), owner=owner)

    def get_owned_job_or_not_found(self, job_id: JobHandle | str, owner: str) -> Job:
        """``get`` for what a user asks for: ``owner`` is who asks, and can be neither left out nor empty.

        Raises ``JobNotFound`` for a job that is missing and for one that is somebody else's: the same text, by the same query.
        """
        if not isinstance(owner, str) or not owner.strip():
            raise InvalidDefinition(f"owner= is who asks, as text, not {shown(owner)}: without one this would be anybody's job")
        return self.store.get(id_of(job_id, "get_owned_job_or_not_found"), owner=owner)

    def find_active_job(self, definition: JobDefinition[Any], key: str, *, owner: str = "") -> Job | None:
        """Read the job that holds this key and is not done with: queued, retrying or in progress. None when there is none.

        For showing it. To start a job once, enqueue with the key: of any number of callers one starts it, and all get that one,
        while a job that is found here may be gone, or a new one there, by the time of the next call.
        """
        if not isinstance(owner, str):
            raise InvalidDefinition(
                f"owner= is the owner whose key it is, as text, not {shown(owner)}; for jobs that nobody owns, leave it out"
            )
        return self.store.find_active((definition.name, *definition.aliases), check_key(key), owner=owner)

    def find(
        self,
        *,
        status: Status | str | None = None,
        definition: JobDefinition[Any] | None = None,
        queue: str | None = None,
        key: str | None = None,
        owner: str | None = None,
        limit: int = 50,
        before: JobHandle | str | None = None,
    ) -> list[Job]:
        """Read jobs, newest first; ``before`` is the last id of the page before. Raises ``InvalidDefinition`` for what cannot be asked."""
        before_id = None if before is None else check_before(id_of(before, "find(before=...)"), "a job")
        where = _filter(status, definition, queue, key, owner)
        return self.store.find(where, limit=check_limit(limit), before=before_id)

    def history(self, job_id: JobHandle | str, *, owner: str | None = None) -> list[Attempt]:
        """The attempts of a job that were kept, oldest first. Raises ``JobNotFound``, also for another owner's job."""
        job_id = id_of(job_id, "history")
        if owner is not None:
            self.store.get(job_id, owner=owner)  # an owner never changes, so what follows cannot be somebody else's
        attempts = self.store.history(job_id)
        if not attempts:
            self.store.get(job_id)  # which says that there is no such job
        return attempts

    def attempts(
        self,
        *,
        definition: JobDefinition[Any] | None = None,
        queue: str | None = None,
        outcome: str | None = None,
        worker: str | None = None,
        since: datetime | timedelta | float | str | None = None,
        until: datetime | timedelta | float | str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Attempts:
        """Read the attempts of all jobs that were kept, newest first, in pages: ``before`` is ``next`` of the page before.

        ``worker`` is the lease owner of a process. ``since`` and ``until`` are moments, or durations before now. A page looks at 10,000
        attempts at most where few match: it ``is_capped`` then, and ``next`` goes on. Raises ``InvalidDefinition`` or ``InvalidTime``.
        """
        if worker is not None and not isinstance(worker, str):
            raise InvalidDefinition(f"worker= is the lease owner of a process, as text, not {shown(worker)}")
        now = self.store.clock.now()
        of_jobs = _filter(None, definition, queue, None, None)
        where = AttemptFilter(
            types=of_jobs.types,
            queues=of_jobs.queues,
            outcomes=() if outcome is None else (read_outcome(outcome),),
            lease_owner=worker,
            since=None if since is None else read_end(since, now),
            until=None if until is None else read_end(until, now),
        )
        return self.store.attempts(where, limit=check_limit(limit), before=None if before is None else read_place(before))

    def cancel(self, job_id: JobHandle | str, *, owner: str | None = None) -> Job:
        """Cancel a waiting job at once; ask a running one to stop."""
        return self.store.cancel(id_of(job_id, "cancel"), owner=owner)

    def retry(self, job_id: JobHandle | str, *, owner: str | None = None) -> Job:
        """Queue a dead-lettered or cancelled job again, with all its tries."""
        return self.store.retry(id_of(job_id, "retry"), owner=owner)

    def run_now(self, job_id: JobHandle | str, *, owner: str | None = None) -> Job:
        """Make a waiting job due now."""
        return self.store.run_now(id_of(job_id, "run_now"), owner=owner)

    def delete(self, job_id: JobHandle | str, *, owner: str | None = None) -> None:
        """Remove a job that is not running, and its history."""
        self.store.delete(id_of(job_id, "delete"), owner=owner)

    def bulk(
        self,
        verb: BulkVerb,
        *,
        status: Status | str | None = None,
        definition: JobDefinition[Any] | None = None,
        queue: str | None = None,
        key: str | None = None,
        owner: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        actor: str = "",
        pace: str | None = None,
    ) -> BulkResult:
        """``"cancel"``, ``"retry"``, ``"run_now"`` or ``"delete"`` for all jobs that match, a hundred in a commit. ``dry_run`` only counts.

        ``on_progress`` is told after each hundred what was done; it stops where that returns False. ``actor`` is who does it, for the
        record (``actions``). With ``pace="10/s"`` it takes no more than so many in so long a time, and lasts as long as that takes.
        See ``onward.bulk.run_bulk``.
        """
        where = _filter(status, definition, queue, key, owner)
        rate = None if pace is None else parse_rate("pace", pace)
        return run_bulk(self.store, verb, where, dry_run=dry_run, on_progress=on_progress, actor=actor, pace=rate)

    def pause(self, queue: str, *, actor: str = "") -> bool:
        """Let no more jobs of the queue start, in any worker of the store, until ``resume``. Those that run go on; enqueues are accepted.

        False when it was paused already. ``actor`` is who does it, for the record (``actions``). Raises ``InvalidDefinition`` for what is
        no name of a queue, or no actor.
        """
        return self.store.pause(check_name("queue", queue), actor=check_actor(actor))

    def resume(self, queue: str, *, actor: str = "") -> bool:
        """Let the jobs of a paused queue start again. False when it was not paused. Otherwise as ``pause``."""
        return self.store.resume(check_name("queue", queue), actor=check_actor(actor))

    def queues(self) -> list[Queue]:
        """Every queue that is paused or has jobs that wait or run, by name."""
        return self.store.queues()

    def actions(self, *, limit: int = 50, before: str | None = None) -> list[Action]:
        """Who did what to how many, newest first; ``before`` is the last id of the page before.

        Every ``bulk``, ``pause`` and ``resume``, and what was done to breakers and limits by hand.

        Kept for ``Retention(actions="90d")``. Raises ``InvalidDefinition`` for what cannot be asked.
        """
        return self.store.actions(limit=check_limit(limit), before=None if before is None else check_before(before, "an action"))

    # What a web handler asks of a store while others wait for its loop.
    aget = awaited(get)
    aget_owned_job_or_not_found = awaited(get_owned_job_or_not_found)
    afind_active_job = awaited(find_active_job)
    afind = awaited(find)
    ahistory = awaited(history)
    aattempts = awaited(attempts)
    aretry = awaited(retry)
    acancel = awaited(cancel)
    arun_now = awaited(run_now)
    adelete = awaited(delete)
    abulk = awaited(bulk)
    apause = awaited(pause)
    aresume = awaited(resume)
    aqueues = awaited(queues)
    aactions = awaited(actions)


def check_before(before: str, what: str) -> str:
    """Give the last id of a page back if it can be one. Raises ``InvalidDefinition``."""
    if not is_id(before):
        raise InvalidDefinition(f"before= is the id of {what}, 26 characters, not {shown(before)}")
    return before


def check_limit(limit: int) -> int:
    """Give the length of a page back if it can be one. Raises ``InvalidDefinition``."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= HIGHEST_COUNT:
        raise InvalidDefinition(f"limit= is a whole number from 1 to {HIGHEST_COUNT:,}, not {shown(limit)}")
    return limit


def _filter(
    status: Status | str | None, definition: JobDefinition[Any] | None, queue: str | None, key: str | None, owner: str | None
) -> JobFilter:
    if definition is not None and not isinstance(definition, JobDefinition):
        raise InvalidDefinition(f"definition= is what define_job(name, handler) returned, not {shown(definition)}")
    if owner is not None and not isinstance(owner, str):
        raise InvalidDefinition(f"owner= is text, not {shown(owner)}")
    return JobFilter(
        statuses=() if status is None else (_read_status(status),),
        types=() if definition is None else (definition.name, *definition.aliases),
        queues=() if queue is None else (check_name("queue", queue),),
        key=None if key is None else check_key(key),
        owner=owner,
    )


def _read_status(status: str) -> Status:
    try:
        return Status(status)
    except ValueError:
        raise InvalidDefinition(f"there is no status {shown(status)}{did_you_mean(str(status), [one.value for one in Status])}") from None
