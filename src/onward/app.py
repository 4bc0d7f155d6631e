"""``Onward``: the one object an application makes. Joins definitions and a store, and translates for both."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

from onward.alert_rules import AlertRules
from onward.clock import Clock, SystemClock
from onward.definition import Duration, JobDefinition
from onward.driver import Store
from onward.drivers import connect
from onward.errors import InvalidDefinition, UnknownJobType
from onward.events import Event, EventName, Events, Subscriber, correlation_id
from onward.failure_verbs import Failures
from onward.group_commit import GroupCommit
from onward.handle import JobHandle
from onward.inspection import Retention
from onward.jobs import Accepted, EnqueueOptions, NewJob
from onward.limit import Limit
from onward.monitor import Alerts, Monitor
from onward.options import (
    WorkerOptions,
    check_worker_options,
    read_alert_rules,
    read_limits,
    read_many,
    read_on,
    read_retention,
    read_subscribers,
    read_url,
    read_webhooks,
)
from onward.periodic import Periodic
from onward.periodic_jobs import PeriodicJobs
from onward.reconciler import Reconciler
from onward.registry import Registry
from onward.settings import find_url
from onward.spelling import shown
from onward.verbs import JobVerbs
from onward.waits import Breakers, Limits
from onward.webhooks import QUEUE as WEBHOOK_QUEUE
from onward.webhooks import Webhook, Webhooks

if TYPE_CHECKING:
    from onward.worker.worker import Worker

P = TypeVar("P")
R = TypeVar("R")
Arguments = ParamSpec("Arguments")
logger = logging.getLogger("onward")


class Onward(JobVerbs):
    """Jobs of one application in one store.

    ``url`` is ``sqlite:///file.db``, ``sqlite:////absolute/file.db``, ``postgresql://user@host/database`` or ``memory://``; left out, it
    comes from ``ONWARD_URL`` or the settings file. ``jobs`` are what ``define_job`` returned. ``services`` is handed to handlers as
    ``ctx.services``. ``strict`` refuses a caller's connection that could lose commits at a power cut, instead of warning once.
    ``periodic`` are jobs that the clock enqueues, each a ``Periodic(definition, cron)``. ``limits`` say of queues, by their names, how many
    of their jobs run at once or begin in a time, each a ``Limit``; what a person sets counts before them. ``retention`` says how long
    finished jobs are kept; workers delete them afterwards. ``reconcile`` are checks that ``onward reconcile`` and every worker start run.
    ``subscribers`` are called with each ``Event``, those in ``on`` with each of one name: ``on={"dead_lettered": tell}``. ``alert_rules``
    say when an alert opens by itself, ``webhooks`` who is told of alerts by HTTP. ``clock`` tells the store what time it is; a test gives
    one that it moves. ``migrate`` makes or changes the tables in Postgres at the first use; without it ``onward migrate`` does. ``store``
    is a store that was made already, in place of ``url``, ``strict``, ``clock`` and ``migrate``, which belong to its making.
    Nothing is opened before the first use. Raises ``InvalidDefinition`` or ``InvalidSetting``.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        jobs: Iterable[JobDefinition[Any]] = (),
        services: Any = None,
        strict: bool = False,
        periodic: Iterable[Periodic] = (),
        limits: Mapping[str, Limit] | None = None,
        retention: Retention | None = None,
        reconcile: Iterable[Reconciler] = (),
        subscribers: Iterable[Subscriber] = (),
        alert_rules: AlertRules | None = None,
        webhooks: Iterable[Webhook] = (),
        on: Mapping[EventName, Subscriber | Iterable[Subscriber]] | None = None,
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
        self.periodic = PeriodicJobs(self.store, self.definitions, read_many("periodic", periodic, 'Periodic(report, "@daily")'))
        self.queue_limits = read_limits(limits)
        self.breakers = Breakers(self.store)
        self.limits = Limits(self.store)
        self.metrics = Monitor(self.store)
        self.alerts = Alerts(self.store)
        self.failures = Failures(self.store)
        self.services = services
        self.retention = read_retention(retention)
        self.reconcilers: tuple[Reconciler, ...] = read_many("reconcile", reconcile, "files")
        self.alert_rules = read_alert_rules(alert_rules)
        self.webhooks = Webhooks(read_webhooks(webhooks))
        if self.webhooks:
            self.definitions.add(self.webhooks.job)
        self.events = Events((*read_subscribers(subscribers), *read_on(on)))
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

    # -- run ---------------------------------------------------------------------------------------------------------

    def worker(self, **options: Unpack[WorkerOptions]) -> Worker:
        """A worker in this process; what each of the ``options`` means stands at ``onward.worker.worker.Worker``.

        It installs no signal handlers and has no supervisor: a handler that holds the GIL can outlive its grace, which the
        command-line worker prevents. Raises ``InvalidDefinition`` for an option that it does not have.
        """
        checked = check_worker_options(options)
        if self.webhooks and (queues := tuple(checked.get("queues", ()))):
            checked["queues"] = (*queues, WEBHOOK_QUEUE)
        from onward.worker.worker import Worker

        return Worker(
            store=self.store,
            definitions=self.definitions,
            events=self.events,
            services=self.services,
            periodic=self.periodic.declared.values(),
            queue_limits=self.queue_limits,
            retention=self.retention,
            alert_rules=self.alert_rules,
            jobs_for_alerts=self.webhooks.jobs_for if self.webhooks else None,
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


def _not_a_definition(given: Any) -> str:
    if isinstance(given, NewJob):
        return "enqueue takes a job and its payload, not what new_job() made: give that to enqueue_many([...])"
    return f"{shown(given)} is not a job: enqueue what define_job(name, handler) returned"
