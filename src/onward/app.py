"""``Onward``: the one object an application makes. Joins definitions and a store, and translates for both."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from onward.clock import Clock, SystemClock
from onward.definition import Duration, JobDefinition
from onward.driver import Store
from onward.drivers import connect
from onward.errors import InvalidDefinition, UnknownJobType
from onward.events import Event, Events, Subscriber, correlation_id
from onward.group_commit import GroupCommit
from onward.handle import JobHandle, id_of
from onward.ids import is_id
from onward.inspection import JobFilter, Retention
from onward.jobs import HIGHEST_COUNT, Accepted, Attempt, EnqueueOptions, Job, NewJob
from onward.options import WorkerOptions, check_worker_options, read_many, read_retention, read_subscribers, read_url
from onward.reconciler import Reconciler
from onward.registry import Registry
from onward.settings import find_url
from onward.spelling import did_you_mean, shown
from onward.status import Status
from onward.unique import check_key

if TYPE_CHECKING:
    from onward.worker.worker import Worker

P = TypeVar("P")
R = TypeVar("R")
Arguments = ParamSpec("Arguments")
logger = logging.getLogger("onward")


def _awaited(verb: Callable[Concatenate[Onward, Arguments], R]) -> Callable[Concatenate[Onward, Arguments], Coroutine[Any, Any, R]]:
    """Make the twin of a verb for code on an event loop, which the verb itself would keep waiting for the store: it runs in a thread."""

    @wraps(verb)
    async def twin(self: Onward, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> R:
        from asyncio import to_thread

        return await to_thread(verb, self, *args, **kwargs)

    twin.__name__, twin.__qualname__ = f"a{verb.__name__}", f"Onward.a{verb.__name__}"
    twin.__doc__ = f"``{verb.__name__}`` for code on an event loop."
    return twin


class Onward:
    """Jobs of one application in one store.

    ``url`` is ``sqlite:///file.db``, ``sqlite:////absolute/file.db``, ``postgresql://user@host/database`` or ``memory://``; left out, it
    comes from ``ONWARD_URL`` or the settings file. ``jobs`` are what ``define_job`` returned. ``services`` is handed to handlers as
    ``ctx.services``. ``strict`` refuses a caller's connection that could lose commits at a power cut, instead of warning once.
    ``retention`` says how long finished jobs are kept; workers delete them afterwards. ``reconcile`` are checks that
    ``onward reconcile`` and every worker start run. ``subscribers`` are called with each ``Event``. ``clock`` tells the store what time
    it is; a test gives one that it moves. ``migrate`` makes or changes the tables in Postgres at the first use; without it
    ``onward migrate`` does. ``store`` is a store that was made already, in place of ``url``, ``strict``, ``clock`` and ``migrate``, which
    belong to its making.
    Nothing is opened before the first use. Raises ``InvalidDefinition`` or ``InvalidSetting``.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        jobs: Iterable[JobDefinition[Any]] = (),
        services: Any = None,
        strict: bool = False,
        retention: Retention | None = None,
        reconcile: Iterable[Reconciler] = (),
        subscribers: Iterable[Subscriber] = (),
        clock: Clock | None = None,
        migrate: bool = False,
        store: Store | None = None,
    ) -> None:
        if store is not None and (url is not None or strict or migrate or clock is not None):
            raise InvalidDefinition(
                "a store= that was made already has its url, clock, strict and migrate: give those when it is made, or leave it out"
            )
        self.definitions = Registry(read_many("jobs", jobs, "welcome"))
        self.store: Store = store or connect(read_url(url) or find_url(), clock=clock or SystemClock(), strict=strict, migrate=migrate)
        self.services = services
        self.retention = read_retention(retention)
        self.reconcilers: tuple[Reconciler, ...] = read_many("reconcile", reconcile, "files")
        self.events = Events(read_subscribers(subscribers))
        self._commits = GroupCommit(self.store)
        self._warned_of_loop = False

    def add(self, *definitions: JobDefinition[Any]) -> None:
        """Add jobs after the application was made. Raises ``InvalidDefinition`` when a name is taken."""
        for definition in definitions:
            self.definitions.add(definition)

    # -- enqueue -----------------------------------------------------------------------------------------------------

    @overload
    def enqueue(
        self, definition: JobDefinition[None], payload: None = None, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle: ...
    @overload
    def enqueue(self, definition: JobDefinition[P], payload: P, *, within: Any = None, **options: Unpack[EnqueueOptions]) -> JobHandle: ...
    def enqueue(
        self, definition: JobDefinition[Any], payload: Any = None, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle:
        """Accept one job: when this returns it is durable and will run, at least once, at ``delay=`` from now or ``at=`` a time.

        With ``within=connection`` it joins the caller's transaction and is accepted when that commits. ``key=`` makes it unique
        among the live jobs of its owner and type. ``id=`` repeats a request whose outcome was unknown. Raises ``InvalidPayload``,
        ``DuplicateJob``, ``StoreError``; nothing is accepted then, unless the error is ``OutcomeUnknown``.
        """
        request = self._request(definition, payload, options)
        if within is not None:
            (accepted,) = self.store.within(within).enqueue([request])
        else:
            self._warn_of_running_loop("enqueue")
            (accepted,) = self._commits.enqueue([request])
        return self._accepted(request, accepted, committed=within is None)

    @overload
    async def aenqueue(
        self, definition: JobDefinition[None], payload: None = None, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle: ...
    @overload
    async def aenqueue(
        self, definition: JobDefinition[P], payload: P, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle: ...
    async def aenqueue(
        self, definition: JobDefinition[Any], payload: Any = None, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle:
        """``enqueue`` for code on an event loop; ``within=`` takes a connection whose calls are awaited."""
        request = self._request(definition, payload, options)
        if within is not None:
            (accepted,) = await self.store.within_async(within).enqueue([request])
        else:
            (accepted,) = await self._commits.enqueue_awaited([request])
        return self._accepted(request, accepted, committed=within is None)

    def enqueue_in(
        self, definition: JobDefinition[P], payload: P, delay: Duration, /, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle:
        """``enqueue(..., delay=delay)`` by name."""
        options["delay"] = delay
        return self.enqueue(definition, payload, within=within, **options)

    def enqueue_at(
        self, definition: JobDefinition[P], payload: P, at: datetime | str, /, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle:
        """``enqueue(..., at=at)`` by name."""
        options["at"] = at
        return self.enqueue(definition, payload, within=within, **options)

    async def aenqueue_in(
        self, definition: JobDefinition[P], payload: P, delay: Duration, /, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle:
        """``enqueue_in`` for code on an event loop."""
        options["delay"] = delay
        return await self.aenqueue(definition, payload, within=within, **options)

    async def aenqueue_at(
        self, definition: JobDefinition[P], payload: P, at: datetime | str, /, *, within: Any = None, **options: Unpack[EnqueueOptions]
    ) -> JobHandle:
        """``enqueue_at`` for code on an event loop."""
        options["at"] = at
        return await self.aenqueue(definition, payload, within=within, **options)

    def enqueue_many(self, jobs: Iterable[NewJob], *, within: Any = None) -> list[JobHandle]:
        """Accept many jobs in one commit, all or none: ``app.enqueue_many([welcome.new_job(Welcome("42"), delay="5m"), ...])``.

        Gives a handle a job, in order. Keys hold among them as well.
        """
        requests = [self._checked(job) for job in jobs]
        if not requests:
            return []
        if within is not None:
            accepted = self.store.within(within).enqueue(requests)
        else:
            self._warn_of_running_loop("enqueue_many")
            accepted = self._commits.enqueue(requests)
        return [self._accepted(request, one, committed=within is None) for request, one in zip(requests, accepted, strict=True)]

    async def aenqueue_many(self, jobs: Iterable[NewJob], *, within: Any = None) -> list[JobHandle]:
        """``enqueue_many`` for code on an event loop."""
        requests = [self._checked(job) for job in jobs]
        if not requests:
            return []
        if within is not None:
            accepted = await self.store.within_async(within).enqueue(requests)
        else:
            accepted = await self._commits.enqueue_awaited(requests)
        return [self._accepted(request, one, committed=within is None) for request, one in zip(requests, accepted, strict=True)]

    def transaction(self, *, limit: timedelta | None = None) -> AbstractContextManager[Any]:
        """A write transaction in the store's own database, for the application's data and for jobs enqueued ``within`` it.

        Commits at the end of the ``with`` block, rolls back on an exception; then no job was ever there.
        """
        return self.store.transaction(limit=limit)

    # -- look and act ------------------------------------------------------------------------------------------------

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
        before_id = None if before is None else id_of(before, "find(before=...)")
        if before_id is not None and not is_id(before_id):
            raise InvalidDefinition(f"before= is the id of a job, 26 characters, not {shown(before_id)}")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= HIGHEST_COUNT:
            raise InvalidDefinition(f"limit= is a whole number from 1 to {HIGHEST_COUNT:,}, not {shown(limit)}")
        where = JobFilter(
            statuses=() if status is None else (_read_status(status),),
            types=() if definition is None else (definition.name, *definition.aliases),
            queues=() if queue is None else (queue,),
            key=key,
            owner=owner,
        )
        return self.store.find(where, limit=limit, before=before_id)

    def history(self, job_id: JobHandle | str, *, owner: str | None = None) -> list[Attempt]:
        """The attempts of a job that were kept, oldest first. Raises ``JobNotFound``, also for another owner's job."""
        job_id = id_of(job_id, "history")
        if owner is not None:
            self.store.get(job_id, owner=owner)  # an owner never changes, so what follows cannot be somebody else's
        attempts = self.store.history(job_id)
        if not attempts:
            self.store.get(job_id)  # which says that there is no such job
        return attempts

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

    # What a web handler asks of a store while others wait for its loop.
    aget = _awaited(get)
    aget_owned_job_or_not_found = _awaited(get_owned_job_or_not_found)
    afind_active_job = _awaited(find_active_job)
    aretry = _awaited(retry)
    acancel = _awaited(cancel)

    # -- run ---------------------------------------------------------------------------------------------------------

    def worker(self, **options: Unpack[WorkerOptions]) -> Worker:
        """A worker in this process; what each of the ``options`` means stands at ``onward.worker.worker.Worker``.

        It installs no signal handlers and has no supervisor: a handler that holds the GIL can outlive its grace, which the
        command-line worker prevents. Raises ``InvalidDefinition`` for an option that it does not have.
        """
        checked = check_worker_options(options)
        from onward.worker.worker import Worker

        return Worker(
            store=self.store,
            definitions=self.definitions,
            events=self.events,
            services=self.services,
            retention=self.retention,
            reconcilers=self.reconcilers,
            **checked,
        )

    def close(self) -> None:
        """Give back connections and threads. A later call opens again."""
        self._commits.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, definition: JobDefinition[Any], payload: Any, options: EnqueueOptions) -> NewJob:
        if not isinstance(definition, JobDefinition):
            raise UnknownJobType(_not_a_definition(definition))
        return self._checked(definition.new_job(payload, **options))

    def _checked(self, job: NewJob) -> NewJob:
        if not isinstance(job, NewJob):
            raise InvalidDefinition(f"enqueue_many takes what definition.new_job(payload) made, not {shown(job)}")
        if job.type not in self.definitions:
            raise UnknownJobType(f"{job.type!r} is not a job of this application: add it to Onward(jobs=[...])")
        return job

    def _accepted(self, request: NewJob, accepted: Accepted, *, committed: bool) -> JobHandle:
        if accepted.is_new and self.events.has_subscribers:
            self.events.emit(
                Event(
                    event="queued",
                    job_id=accepted.id,
                    job_type=request.type,
                    queue=request.queue,
                    priority=request.priority,
                    correlation_id=correlation_id(request.metadata, request.id),
                    committed=committed,
                )
            )
        return JobHandle(accepted, self.get)

    def _warn_of_running_loop(self, verb: str) -> None:
        # Another thread may be importing it in this moment, and nobody runs a loop before that is done.
        running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
        if self._warned_of_loop or running is None or running() is None:
            return
        self._warned_of_loop = True
        logger.warning("%s() blocks the running event loop until the commit: use 'await app.a%s(...)' there", verb, verb)


def _read_status(status: str) -> Status:
    try:
        return Status(status)
    except ValueError:
        raise InvalidDefinition(f"there is no status {shown(status)}{did_you_mean(str(status), [one.value for one in Status])}") from None


def _not_a_definition(given: Any) -> str:
    if isinstance(given, NewJob):
        return "enqueue takes a job and its payload, not what new_job() made: give that to enqueue_many([...])"
    return f"{shown(given)} is not a job: enqueue what define_job(name, handler) returned"
