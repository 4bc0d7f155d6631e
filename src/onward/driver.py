"""The contract between Onward and a backend: verbs of a job, never "run this query".

``Driver`` is what every backend does. ``Store`` adds what a database can do. Everything here is synchronous; the async twins live
at the edge. A backend is right when ``onward.testing.conformance`` passes over it.

Every change to a claimed job names the claim (``Claim.fence``); a statement that cannot find that fence changes nothing and
says so. A backend raises only errors of ``onward.errors``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from onward.actions import Action, NewAction
from onward.admission import Constraint
from onward.clock import Clock
from onward.inspection import (
    STUCK_AFTER,
    Acted,
    Answer,
    BulkVerb,
    Finding,
    JobFilter,
    Question,
    Queue,
)
from onward.jobs import Accepted, Attempt, Job, NewJob
from onward.moments import PeriodicChange, PeriodicLook, PeriodicWritten
from onward.rollups import Rollup, Tally
from onward.sight_verbs import SightVerbs
from onward.status import Status
from onward.tidy_verbs import TidyVerbs
from onward.turn import Claim, Demand, Extended, Extension, Settlement, Swept, Turn
from onward.wait_verbs import WaitVerbs


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a backend can and cannot do. Differences are declared here, never guessed from a name."""

    name: str
    payload_limit: int = 256 * 1024
    """Largest encoded payload, in bytes."""
    has_transactions: bool = True
    """True when jobs can join the caller's transaction (``within=``)."""
    survives_process: bool = True
    """False for memory: accepted jobs end with the process."""
    has_one_writer: bool = False
    """True when a write keeps every other one waiting until it is committed, whatever it writes."""
    waits_for_keys: bool = False
    """True when an enqueue waits for another transaction that has taken its key: it must not keep others waiting that have nothing to
    do with the key."""


class Driver(ABC):
    """What every backend does."""

    capabilities: Capabilities
    clock: Clock
    url: str
    """Where it is, without secrets: safe to print."""
    whole_url: str | None = None
    """The same with its secrets and every option, where ``url`` leaves some out: for another process of ours, never to be printed."""
    schema_version: int | None = None
    """Which version its tables have, once it is open. None where there are no tables."""

    @abstractmethod
    def open(self) -> None:
        """Connect and check the schema. Idempotent; every verb opens by itself.

        Raises ``StoreUnavailable`` or ``SchemaOutOfDate``.
        """

    def exists(self) -> bool:
        """Say whether there is anything to open: False where the first ``open`` would begin a new, empty store. Changes nothing."""
        return True

    def needs_migration(self) -> bool:
        """Say whether the next ``open`` would have tables to make or to change. Changes nothing. Raises as ``open`` does."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Give back connections and wake whoever waits. Idempotent; a later verb opens again."""

    @abstractmethod
    def enqueue_each(self, requests: Sequence[Sequence[NewJob]]) -> list[list[Accepted] | Exception]:
        """Accept several independent requests in one commit; each is stored whole or not at all, and its neighbours do not notice.

        The answer to a request is one ``Accepted`` a job, in order, or the ``DuplicateJob`` or ``KeyReused`` that refused it.
        Raises ``StoreBusy`` or ``StoreUnavailable`` when nothing was accepted, ``OutcomeUnknown`` when the commit itself failed.
        A job whose id is stored already with the same type and payload counts as accepted (``is_new`` is False).
        """

    @abstractmethod
    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        """One transaction of a worker: settle what ended, then claim what is due.

        For each settlement whose claim is the newest: the status, the key freed if it ends the job, children, history. A lost one
        changes nothing and does not undo its neighbours, and neither does one that would have to wait for somebody else's transaction
        (``Turn.held_up``). Safe to repeat after ``OutcomeUnknown``. What was really settled is counted by the ``tally`` and its rollups
        stored in the same commit.

        Raises ``ValueRefused``, and nothing is stored, when one of the settlements holds a value that can never be stored.
        """

    @abstractmethod
    def extend(self, extensions: Sequence[Extension]) -> Extended:
        """Renew leases: each ``lease_until`` becomes now + the claim's lease. Stores also what else the extensions say.

        A claim whose row another transaction holds is neither renewed nor lost (``Extended.held_up``): nobody can take it meanwhile.
        """

    @abstractmethod
    def wait(self, timeout: timedelta) -> bool:
        """Block until a job may have become claimable, ``wake`` is called, or the time is over. True unless it timed out.

        May return True for nothing. Only a worker's one claiming thread calls it; several workers may share a store, and each is woken.
        """

    @abstractmethod
    def wake(self) -> None:
        """End each ``wait`` in this process, of a worker that does not wait the next one. Safe from any thread and a signal handler."""

    @property
    def wakes_surely(self) -> bool:
        """True while ``wait`` is sure to end when a job becomes claimable, so that a worker need hardly look by itself."""
        return False

    @property
    @abstractmethod
    def inside_transaction(self) -> bool:
        """True while the calling thread is inside a ``transaction`` of this store, so that its other verbs could only wait for it."""

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Accept these jobs, all or none, in one commit. Raises as ``enqueue_each`` does, and what refused them."""
        (answer,) = self.enqueue_each([jobs])
        if isinstance(answer, Exception):
            raise answer
        return answer


class Within(ABC):
    """A store's verbs inside a transaction that somebody else commits or rolls back."""

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """As ``Driver.enqueue``; accepted when the caller's transaction commits."""

    @abstractmethod
    def get(self, job_id: str, *, owner: str | None = None) -> Job: ...

    @abstractmethod
    def cancel(self, job_id: str, *, owner: str | None = None) -> Job: ...

    @abstractmethod
    def retry(self, job_id: str, *, owner: str | None = None) -> Job: ...

    @abstractmethod
    def confirm(self, claim: Claim) -> None:
        """Raise ``LeaseLost`` unless the claim is the newest; no other can be made before the transaction ends."""

    @abstractmethod
    def settle(self, settlement: Settlement) -> None:
        """Store how a run ended. Raises ``LeaseLost`` when the claim is not the newest any more."""


class AsyncWithin(ABC):
    """``Within`` on a connection whose calls are awaited."""

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob]) -> Awaitable[list[Accepted]]: ...

    @abstractmethod
    def get(self, job_id: str, *, owner: str | None = None) -> Awaitable[Job]: ...

    @abstractmethod
    def cancel(self, job_id: str, *, owner: str | None = None) -> Awaitable[Job]: ...

    @abstractmethod
    def retry(self, job_id: str, *, owner: str | None = None) -> Awaitable[Job]: ...

    @abstractmethod
    def confirm(self, claim: Claim) -> Awaitable[None]: ...

    @abstractmethod
    def settle(self, settlement: Settlement) -> Awaitable[None]: ...


class Store(Driver, WaitVerbs, SightVerbs, TidyVerbs):
    """A backend that is a database: it can be read, edited and shared."""

    @abstractmethod
    def transaction(self, *, limit: timedelta | None = None) -> AbstractContextManager[Any]:
        """Open a write transaction of the store's own and give its connection, for the caller's data and for ``within``.

        Commits at the end, rolls back on an exception. After ``limit`` it is rolled back and every further use of the connection,
        the commit included, raises ``TransactionTooLong``. While a thread is inside, the other verbs of the store raise
        ``TransactionOpen`` in that thread.
        """

    @abstractmethod
    def within(self, connection: Any) -> Within:
        """The verbs that can join the caller's transaction, on the caller's connection.

        Raises ``NoTransaction`` when the connection would commit by itself, ``WeakDurability`` in strict mode.
        """

    @abstractmethod
    def within_async(self, connection: Any) -> AsyncWithin:
        """``within`` for a connection whose calls are awaited."""

    @abstractmethod
    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        """Read one job. Raises ``JobNotFound``, also for another owner's job."""

    @abstractmethod
    def find(self, where: JobFilter, *, limit: int = 50, before: str | None = None) -> list[Job]:
        """Read jobs, newest id first; ``before`` is the last id of the page before."""

    @abstractmethod
    def find_active(self, types: Sequence[str], key: str, *, owner: str) -> Job | None:
        """Read the live job (queued, retrying, in progress) of one of these types that holds this key of this owner."""

    @abstractmethod
    def count(self, where: JobFilter) -> int:
        """Count jobs."""

    @abstractmethod
    def history(self, job_id: str) -> list[Attempt]:
        """The attempts that were kept, oldest first."""

    @abstractmethod
    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        """Cancel a waiting job at once; ask a running one to stop (``cancel_requested_at``). Gives the job as it is then.

        Raises ``IllegalTransition`` for a job that is final, ``JobNotFound``.
        """

    @abstractmethod
    def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        """Queue a dead-lettered or cancelled job again, now: attempts = 0, error cleared, history kept, its key taken again.

        Raises ``DuplicateJob`` naming the holder when another job has the key, ``IllegalTransition``, ``JobNotFound``.
        """

    @abstractmethod
    def run_now(self, job_id: str, *, owner: str | None = None) -> Job:
        """Make a waiting job due now. Raises ``IllegalTransition``, ``JobNotFound``."""

    @abstractmethod
    def delete(self, job_id: str, *, owner: str | None = None) -> None:
        """Remove a job, its history and its key of scope ``active``. Raises ``IllegalTransition`` for a running one, ``JobNotFound``."""

    @abstractmethod
    def act(
        self, verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status] = tuple(Status), *, action: str | None = None
    ) -> Acted:
        """Do to each of these jobs, about a hundred, what the verb of that name does, in one commit, if it still has one of these statuses.

        One that the verb refuses, that is gone, or whose row somebody else holds is told, and does not disturb the others. The record of
        the ``action`` of that id counts what was done in the commit that does it.
        """

    @abstractmethod
    def pause(self, queue: str, *, actor: str = "") -> bool:
        """From this commit on no job of the queue is claimed; those that run go on, and enqueues are accepted. False when it was paused.

        The same commit leaves a record of it, and of the ``actor``.
        """

    @abstractmethod
    def resume(self, queue: str, *, actor: str = "") -> bool:
        """Let the queue's jobs be claimed again, and wake workers. False when it was not paused. Leaves a record as ``pause`` does."""

    @abstractmethod
    def paused(self) -> dict[str, datetime]:
        """The queues that are paused, each with the moment since when."""

    @abstractmethod
    def queues(self) -> list[Queue]:
        """Every queue that is paused or has jobs that wait or run, by name."""

    @abstractmethod
    def due_periodic(self) -> PeriodicLook:
        """The periodic jobs that are due and not paused, the longest overdue first. Cheap where none is."""

    @abstractmethod
    def periodic(self, names: Collection[str] | None = None) -> PeriodicLook:
        """The periodic jobs of these names, or all of them, by name."""

    @abstractmethod
    def write_periodic(self, changes: Sequence[PeriodicChange]) -> list[PeriodicWritten]:
        """Write each change whose row nobody has changed since it was read, and its jobs, in one commit; wake workers.

        The answer has those that were written. A job whose id is stored already, or whose key is held, is not new.
        """

    @abstractmethod
    def delete_periodic(self, name: str) -> bool:
        """Forget a periodic job; its jobs stay. False when there was none of this name."""

    @abstractmethod
    def begin_action(self, action: NewAction) -> None:
        """Write the record of what is about to be done: nothing yet."""

    @abstractmethod
    def end_action(self, action_id: str, *, was_stopped: bool = False) -> None:
        """Write into a record that nothing more will be done, and whether it was stopped before it was through. Nothing if it is gone."""

    @abstractmethod
    def actions(self, *, limit: int = 50, before: str | None = None) -> list[Action]:
        """Read the record, newest id first; ``before`` is the last id of the page before."""

    @abstractmethod
    def sweep(
        self, types: Collection[str] = (), *, constraints: Mapping[str, Constraint] | None = None, patience: timedelta = timedelta(0)
    ) -> Swept:
        """Give back, or dead-letter, claims whose lease ran out; cancel what expired; clear ``blocked_by = 'type'`` of ``types``, and of
        jobs that wait for others and have nobody to wait for. ``constraints`` is what code says of ``types`` by now.

        One guarded statement each, so any number of workers may sweep at once. A lease further ahead than the longest allowed
        (a day) counts as run out: the clock went back.

        Where a transaction of somebody else can hold a single row, a claim is taken only if this store saw it run out and free
        ``patience`` ago already; the others are ``Swept.suspected``. Elsewhere patience is not needed, and nothing waits for it.
        """

    @abstractmethod
    def recover(self, lease_owner: str, started: Collection[str]) -> Swept:
        """Take back every claim of a dead process, which is no worker any more: those in ``started`` are lost, the others given back."""

    @abstractmethod
    def held(self, lease_owner: str) -> list[Job]:
        """The jobs in progress under this owner: after an unknown commit, claims may be held that nobody was told of."""

    @abstractmethod
    def cancel_requested(self, lease_owner: str) -> frozenset[str]:
        """The ids of this owner's running jobs that a person asked to cancel. Cheap: asked at every poll."""

    @abstractmethod
    def rollups(self, since: datetime) -> list[Rollup]:
        """What ended in the minute of ``since`` and later: a row for each worker, in no order."""

    @abstractmethod
    def answer(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> Answer:
        """Answer one of the six standing questions."""

    @abstractmethod
    def question_sql(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> str:
        """The query behind ``answer``, to paste into the database's own shell."""

    @abstractmethod
    def migrate(self) -> None:
        """Make the tables, or bring them up to date; nothing where they are. Any number of processes may do it at once.

        Raises ``SchemaOutOfDate``, ``StoreBusy``, ``StoreUnavailable``.
        """

    @abstractmethod
    def migration_sql(self) -> str:
        """The script that brings the tables from what they are, or from nothing, to the newest version and records it.

        One transaction, for the database's own shell; a comment when there is nothing to do. Changes nothing; run a second time, the
        script fails and changes nothing.
        """

    @abstractmethod
    def examine(self) -> list[Finding]:
        """What ``onward doctor`` says about the store: version, settings that weaken promises, schema, size."""
