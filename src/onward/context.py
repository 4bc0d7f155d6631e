"""``JobContext``: what a handler is given beside its payload."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

import msgspec

from onward.errors import LeaseLost, OnwardError, UnknownJobType
from onward.events import correlation_id
from onward.jobs import HIGHEST_COUNT, EnqueueOptions, Job, NewJob
from onward.payload import encode_progress

if TYPE_CHECKING:
    from onward.definition import JobDefinition

P = TypeVar("P")
logger = logging.getLogger("onward.job")
COMPLETED_ALREADY = "this run is completed already by its first transaction: do all of it in one transaction, or enqueue a child"
# Few handlers wait, and an event costs more than all the rest of a context.
_making_events = threading.Lock()


class Transactions(Protocol):
    """How a context opens a transaction that ends its run; the worker knows the store, the context does not."""

    def begin(self, context: JobContext) -> AbstractContextManager[Any]:
        """A write transaction of the store's own, with the fence checked; completes the job when it commits."""
        ...

    def join(self, context: JobContext, connection: Any) -> Any:
        """The same in a transaction that the handler opened itself: for ``with``, and for ``async with`` where its calls are awaited."""
        ...

    def has_completed(self, context: JobContext) -> bool:
        """Whether the store has the job as completed by this run."""
        ...


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds its fields to those of each call. The standard adapter would drop the caller's."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}


class JobContext:
    """One run of one job, as its handler sees it.

    Made by the worker; in a unit test, ``JobContext(job)`` or ``onward.testing.run_job`` makes one by hand.
    """

    def __init__(
        self,
        job: Job,
        *,
        services: Any = None,
        transactions: Transactions | None = None,
        worker_id: str | None = None,
        knows: Callable[[str], bool] | None = None,
    ) -> None:
        self.job = job
        self.services = services
        """The application's objects, as given to ``Onward(services=...)``."""
        self.worker_id = worker_id
        self.children: list[NewJob] = []
        """What ``enqueue`` collected; stored with the completion, and only then."""
        self.processed = 0
        self.failed = 0
        self.reported: str | None = None
        """JSON text of the last ``progress``."""
        self.completed_in_transaction = False
        """True after a transaction of ours has committed the completion: nothing is left to settle."""
        self._has_looked = False
        self.may_be_completed = False
        """True once a completion was written whose commit is the caller's, or not answered yet: only the store knows then."""
        self._transactions = transactions
        self._knows = knows
        self._children_before_transaction: int | None = None
        self._children_are_stored = False
        self._is_to_stop = False
        self._is_lost = False
        self._stop: threading.Event | None = None

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self.job.attempts

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued."""
        return self.job.created_at

    @property
    def metadata(self) -> dict[str, Any]:
        """What was given as ``metadata=`` at enqueue, and the correlation id."""
        decoded: dict[str, Any] = msgspec.json.decode(self.job.metadata)
        return decoded

    @property
    def correlation_id(self) -> str:
        """Shared by a job and all that it leads to: the one it was given, else its own id."""
        return correlation_id(self.job.metadata, self.job.id)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds the job's id and type and its correlation id to every record, beside an ``extra=`` of the handler's own."""
        return JobLogger(logger, {"job_id": self.job.id, "job_type": self.job.type, "correlation_id": self.correlation_id})

    @property
    def should_stop(self) -> bool:
        """True once the handler should end soon: its worker is stopping, the job was cancelled, or the lease is lost.

        A handler that cannot finish soon returns ``Release()``; the try does not count.
        """
        return self._is_to_stop

    def wait_for_stop(self, seconds: float) -> bool:
        """Sleep, but no longer than until ``should_stop`` becomes true. For sync handlers. Says whether it is."""
        with _making_events:
            if self._stop is None:
                self._stop = threading.Event()
        # The flag is read after the event is there for all to see, so a stop in between cannot be missed.
        return self._is_to_stop or self._stop.wait(seconds)

    def check_lease(self) -> None:
        """Raise ``LeaseLost`` when the worker knows that the claim is not ours any more. Costs nothing: the store is not asked."""
        if self._is_lost:
            raise LeaseLost(f"the lease of job {self.job.id} ran out or another claim is newer: stop, somebody else does this work")

    def enqueue(
        self,
        definition: JobDefinition[P],
        payload: P = None,  # type: ignore[assignment]  # right for a job without payload, refused by the codec for any other
        **options: Unpack[EnqueueOptions],
    ) -> str:
        """Ask for a child job. It is stored in the commit that completes this job, and not at all when this run does not complete.

        Gives the child's id. The correlation id and the owner are handed down. Raises ``InvalidPayload`` and its kin at once, and
        ``UnknownJobType`` for a job that the application does not have: nobody would ever run it.
        """
        if self._knows is not None and not self._knows(definition.name):
            raise UnknownJobType(f"{definition.name!r} is not a job of this application: add it to Onward(jobs=[...])")
        if self._children_are_stored:
            raise OnwardError("the transaction that completes this job has its children already: enqueue them inside it")
        handed_down = {"correlation_id": self.correlation_id, "parent_id": self.job.id}
        options.setdefault("owner", self.job.owner)
        options["metadata"] = {**(options.get("metadata") or {}), **handed_down}
        child = definition.new_job(payload, **options)
        self.children.append(child)
        return child.id

    def record(self, *, processed: int = 0, failed: int = 0) -> None:
        """Add to the counts of items that this try worked on; kept in the job's history.

        Raises ``OnwardError`` for what is no whole number from 0, or a sum beyond 2**53; nothing is added then.
        """
        counts = _sum("processed", self.processed, processed), _sum("failed", self.failed, failed)
        self.processed, self.failed = counts

    def progress(self, value: Any) -> None:
        """Report how far the job is: any JSON value. Stored with the next heartbeat, and at the end."""
        self.reported = encode_progress(value)

    def transaction(self, connection: Any = None) -> Any:
        """One commit for the handler's writes, the children and the completion, behind the fence: its effect happens exactly once.

        ``with ctx.transaction() as connection:`` opens the store's own transaction (sync handlers). With a connection that the
        application holds (``with``, or ``async with`` where its calls are awaited) everything joins the caller's transaction, which
        the handler then commits. Raises ``LeaseLost`` before anything is written.

        One a run: the first one that commits completes the job, so another raises ``OnwardError``; after a rollback it may be tried
        again. A bare transaction may last 5 seconds on any store, since on SQLite it holds the only write lock; then it is rolled back
        with ``TransactionTooLong``. An error behind it leaves the job completed; it is logged and reported with the completion.
        """
        if self._transactions is None:
            raise OnwardError("this context has no store: run the handler through a worker or onward.testing.drain")
        if self.completed_in_transaction:
            raise OnwardError(COMPLETED_ALREADY)
        if connection is None:
            return self._transactions.begin(self)
        return self._transactions.join(self, connection)

    @contextmanager
    def collecting_children(self) -> Iterator[None]:
        """Around one transaction that ends this run: children of a failed one are forgotten, and after a good one none can be added."""
        if self._children_before_transaction is None:
            self._children_before_transaction = len(self.children)
        # An earlier transaction that is tried again was rolled back, and its children with it.
        del self.children[self._children_before_transaction :]
        self._children_are_stored = False
        try:
            yield
        except BaseException:
            del self.children[self._children_before_transaction :]
            raise
        self._children_are_stored = True

    def is_completed(self) -> bool:
        """Say, behind the handler, whether a transaction of this run completed the job. Asks the store once, where nobody else knows."""
        if self.may_be_completed and not (self.completed_in_transaction or self._has_looked) and self._transactions is not None:
            self.completed_in_transaction = self._transactions.has_completed(self)
            self._has_looked = True
        return self.completed_in_transaction

    def ask_to_stop(self) -> None:
        """Make ``should_stop`` true. Called by the worker."""
        self._is_to_stop = True
        if self._stop is not None:
            self._stop.set()

    def lose_lease(self) -> None:
        """Make ``should_stop`` true and ``check_lease`` raise. Called by the worker."""
        self._is_lost = True
        self.ask_to_stop()


def _sum(name: str, before: int, more: object) -> int:
    if type(more) is not int or more < 0:
        raise OnwardError(f"ctx.record({name}=...) takes a whole number from 0, not {type(more).__name__} {str(more)[:40]}")
    if before + more > HIGHEST_COUNT:
        raise OnwardError(f"ctx.record({name}=...) would count beyond {HIGHEST_COUNT:,}")
    return before + more
