"""``Onward``: the one object an application makes. Joins definitions and a store, and translates for both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from onward.clock import Clock, SystemClock
from onward.definition import Duration, JobDefinition, Registry
from onward.driver import JobFilter, Retention, Store
from onward.drivers import connect
from onward.events import Event, Events, Subscriber
from onward.group_commit import GroupCommit
from onward.job import Accepted, Attempt, Job, NewJob, OnDuplicate, Scope

if TYPE_CHECKING:
    from onward.worker.worker import Worker

P = TypeVar("P")


class Reconciler(Protocol):
    """Compares what completed jobs promised with the world outside. ``onward.files.FileJobs`` is one."""

    name: str

    def reconcile(self, store: Store) -> Reconciliation: ...


class Reconciliation(Protocol):
    """What a reconciler found."""

    checked: int
    unchecked: int
    """Completed before the retention began, so their jobs are gone."""
    discrepancies: Sequence[str]
    """One line each."""


class JobHandle:
    """What ``enqueue`` returns: which job stands for the request."""

    def __init__(self, app: Onward, accepted: Accepted) -> None:
        self._app = app
        self.id = accepted.id
        self.is_new = accepted.is_new
        """False when a job that held the key, or the same request, stands for this one."""
        self.payload_differs = accepted.payload_differs
        """True when that job has another payload."""

    def refresh(self) -> Job:
        """Read the job as it is now. Raises ``JobNotFound`` when it was pruned, or its transaction has not committed."""
        return self._app.store.get(self.id)

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}{'' if self.is_new else ' (existing)'}>"


class Onward:
    """Jobs of one application in one store.

    ``url`` is ``sqlite:///file.db``, ``sqlite:////absolute/file.db`` or ``memory://``; left out, it comes from ``ONWARD_URL`` or the
    settings file. ``jobs`` are what ``define_job`` returned. ``services`` is handed to handlers as ``ctx.services``.
    ``strict`` refuses a caller's connection that could lose commits at a power cut, instead of warning once. ``reconcile`` are checks
    that ``onward reconcile`` and every worker start run. Nothing is opened before the first use.
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
        store: Store | None = None,
    ) -> None:
        from onward.settings import find_url

        self.definitions = Registry(jobs)
        self.store: Store = store or connect(url or find_url(), clock=clock or SystemClock(), strict=strict)
        self.services = services
        self.retention = retention or Retention()
        self.reconcilers = tuple(reconcile)
        self.events = Events(subscribers)
        self._commits = GroupCommit(self.store)

    def add(self, *definitions: JobDefinition[Any]) -> None:
        """Add jobs after the application was made."""
        for definition in definitions:
            self.definitions.add(definition)

    # ... enqueue, aenqueue, enqueue_in, enqueue_at, enqueue_many, get, find, history, cancel, retry, run_now, delete,
    # transaction(), worker(**options), close()
