"""``MemoryStore``: the contract in dictionaries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Condition, get_ident
from typing import Any

from msgspec.structs import replace

from onward.actions import Action, NewAction
from onward.admission import Constraint
from onward.clock import Clock, SystemClock
from onward.driver import AsyncWithin, Capabilities, Within
from onward.drivers.memory import actions, people, periodic, questions, sweep
from onward.drivers.memory.act import act
from onward.drivers.memory.claim import Taken, claim
from onward.drivers.memory.enqueue import enqueue_each
from onward.drivers.memory.queues import list_queues
from onward.drivers.memory.settle import holds, settle_all
from onward.drivers.memory.sight import VerbsOfSight
from onward.drivers.memory.tables import Tables
from onward.drivers.memory.transaction import AsyncMemoryWithin, MemoryTransaction, join
from onward.drivers.memory.waker import Waker
from onward.drivers.wakers import Wakers
from onward.errors import OnwardError, StoreBusy, TransactionOpen
from onward.inspection import STUCK_AFTER, Acted, Answer, BulkVerb, Finding, JobFilter, Question, Queue, Retention
from onward.jobs import Accepted, Attempt, Job, NewJob
from onward.moments import PeriodicChange, PeriodicLook, PeriodicWritten
from onward.outcome import storable
from onward.pruning import Due, Ended, Gone, Look
from onward.rollups import Rollup, Tally, minute_of
from onward.status import Status
from onward.turn import Demand, Extended, Extension, Settlement, Swept, Turn, check_settlements

NOTHING_TAKEN = Taken((), (), None, 0, False)


class MemoryStore(VerbsOfSight):
    """Jobs in this process's memory: every verb and every rule of the other stores, and gone when the process ends.

    ``busy_after`` is how long a verb waits for another thread's transaction before it raises ``StoreBusy``.
    """

    capabilities = Capabilities(name="memory", survives_process=False)
    url = "memory://"

    def __init__(self, *, clock: Clock | None = None, busy_after: timedelta = timedelta(seconds=30)) -> None:
        self.clock = clock or SystemClock()
        self._tables = Tables()
        self._free = Condition()
        self._transaction: MemoryTransaction | None = None
        self._busy_after = busy_after.total_seconds()
        # A SimpleQueue: its put may interrupt a put or get of the same thread, as a signal handler that calls wake does.
        self._waker = Wakers(Waker)

    # -- for tests ---------------------------------------------------------------------------------------------------

    @property
    def enqueued_jobs(self) -> list[Job]:
        """Jobs that wait and are due, in the order in which they would be claimed."""
        return [job for job in self._waiting() if job.scheduled_at <= self.clock.now()]

    @property
    def scheduled_jobs(self) -> list[Job]:
        """Jobs that wait for a later moment, the next one first."""
        later = [job for job in self._waiting() if job.scheduled_at > self.clock.now()]
        return sorted(later, key=lambda job: (job.scheduled_at, job.id))

    def overwrite(self, job_id: str, **fields: Any) -> None:
        """Write into a stored row past every rule, as somebody with a database's shell could."""
        with self._writing() as tables:
            tables.put_job(replace(tables.jobs[job_id], **fields))

    def _waiting(self) -> list[Job]:
        with self._reading() as tables:
            waiting = [job for job in tables.jobs.values() if job.status.is_claimable]
        return sorted(waiting, key=lambda job: (-job.priority, job.scheduled_at, job.id))

    # -- what every backend does -------------------------------------------------------------------------------------

    def open(self) -> None:
        """Nothing is there to be opened."""

    def close(self) -> None:
        """The jobs stay: a later verb finds them."""
        self.wake()

    def enqueue_each(self, requests: Sequence[Sequence[NewJob]]) -> list[list[Accepted] | Exception]:
        with self._writing() as tables:
            answers = enqueue_each(tables, requests, self.clock.now())
        self.wake()
        return answers

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        check_settlements(settlements)
        if demand is not None:
            self._waker.mine()
        with self._writing() as tables:
            now = self.clock.now()
            settled, lost = settle_all(tables, settlements, now)
            if tally is not None:
                tables.write_rollups(tally.add(settled, now))
            taken = claim(tables, demand, now) if demand else NOTHING_TAKEN
            tables.count_unsettled("expired", taken.expired, now)
        if tally is not None:
            tally.confirm()
        if settled:
            self.wake()
        return Turn(
            settled=tuple(settled),
            lost=tuple(lost),
            claims=taken.claims,
            expired=taken.expired,
            next_due=taken.next_due,
            blocked=taken.blocked,
            leaves_blocked=taken.leaves_blocked,
        )

    def extend(self, extensions: Sequence[Extension]) -> Extended:
        lost, cancel_requested = set(), set()
        with self._writing() as tables:
            now = self.clock.now()
            for extension in extensions:
                job = holds(tables, extension.claim)
                if job is None:
                    lost.add(extension.claim.id)
                    continue
                if job.cancel_requested_at is not None:
                    cancel_requested.add(job.id)
                progress = job.progress if extension.progress is None else storable(extension.progress)
                alone = job.ran_isolated or extension.began_isolated
                lease_until = now + extension.claim.lease
                tables.put_job(replace(job, lease_until=lease_until, progress=progress, ran_isolated=alone, updated_at=now))
        return Extended(frozenset(lost), frozenset(cancel_requested))

    def wait(self, timeout: timedelta) -> bool:
        return self._waker.mine().wait(timeout)

    def wake(self) -> None:
        self._waker.wake()

    # -- transactions ------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, limit: timedelta | None = None) -> Iterator[MemoryTransaction]:
        with self._writing() as tables:
            mine = self._transaction = MemoryTransaction(self, tables.copy(), self.clock, limit)
        try:
            yield mine
            with self._free:
                self._tables = mine.tables()
        finally:
            with self._free:
                mine.is_open = False
                if self._transaction is mine:
                    self._transaction = None
                    self._free.notify_all()
        self.wake()

    def within(self, connection: Any) -> Within:
        return join(connection, self, self.clock)

    def within_async(self, connection: Any) -> AsyncWithin:
        return AsyncMemoryWithin(join(connection, self, self.clock))

    @contextmanager
    def _reading(self) -> Iterator[Tables]:
        with self._free:
            self._refuse_own_transaction()
            yield self._tables

    @contextmanager
    def _writing(self) -> Iterator[Tables]:
        with self._free:
            self._refuse_own_transaction()
            while self._transaction is not None:
                if self._transaction.is_overdue:
                    self._transaction.was_too_long = True
                    self._transaction = None
                elif not self._free.wait(self._busy_after):
                    raise StoreBusy("another thread's transaction holds the store: nothing was changed, and trying again is safe")
            with self._tables.all_or_nothing():
                yield self._tables

    @property
    def inside_transaction(self) -> bool:
        with self._free:
            return self._is_inside()

    def _is_inside(self) -> bool:
        return self._transaction is not None and self._transaction.thread == get_ident() and not self._transaction.is_overdue

    def _refuse_own_transaction(self) -> None:
        if self._is_inside():
            raise TransactionOpen("this thread is inside the store's transaction: pass its connection with within=")

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        with self._reading() as tables:
            return people.get(tables, job_id, owner)

    def find(self, where: JobFilter, *, limit: int = 50, before: str | None = None) -> list[Job]:
        with self._reading() as tables:
            found = [job for job in questions.matching(tables.jobs.values(), where) if before is None or job.id < before]
        return sorted(found, key=lambda job: job.id, reverse=True)[:limit]

    def find_active(self, types: Sequence[str], key: str, *, owner: str) -> Job | None:
        with self._reading() as tables:
            holders = [tables.keys.get((owner, type_, key)) for type_ in types]
            held = [tables.jobs.get(holder.job_id) for holder in holders if holder is not None]
            live = [job for job in held if job is not None and job.status.is_live]
            return max(live, key=lambda job: job.id, default=None)

    def count(self, where: JobFilter) -> int:
        with self._reading() as tables:
            return sum(1 for _ in questions.matching(tables.jobs.values(), where))

    def history(self, job_id: str) -> list[Attempt]:
        with self._reading() as tables:
            return list(tables.history.get(job_id, ()))

    def held(self, lease_owner: str) -> list[Job]:
        with self._reading() as tables:
            return [job for job in tables.jobs.values() if job.status is Status.IN_PROGRESS and job.lease_owner == lease_owner]

    def cancel_requested(self, lease_owner: str) -> frozenset[str]:
        return frozenset(job.id for job in self.held(lease_owner) if job.cancel_requested_at is not None)

    def answer(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> Answer:
        with self._reading() as tables:
            return questions.answer(tables.jobs.values(), question, self.clock.now(), stuck_after)

    def question_sql(self, question: Question, *, stuck_after: timedelta = STUCK_AFTER) -> str:
        raise OnwardError("the memory store has no SQL: ask without --sql, or use a database")

    def migrate(self) -> None:
        """There are no tables to make."""

    def migration_sql(self) -> str:
        return "-- there are no tables: these jobs are in memory\n"

    def examine(self) -> list[Finding]:
        return [Finding("memory", "warning", "jobs are kept in this process only and end with it: use sqlite:///file.db to keep them")]

    # -- what a person does ------------------------------------------------------------------------------------------

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        with self._writing() as tables:
            return people.cancel(tables, job_id, owner, self.clock.now())

    def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        with self._writing() as tables:
            job = people.retry(tables, job_id, owner, self.clock.now())
        self.wake()
        return job

    def run_now(self, job_id: str, *, owner: str | None = None) -> Job:
        with self._writing() as tables:
            job = people.run_now(tables, job_id, owner, self.clock.now())
        self.wake()
        return job

    def delete(self, job_id: str, *, owner: str | None = None) -> None:
        with self._writing() as tables:
            people.delete(tables, job_id, owner, self.clock.now())

    # -- keeping the store well --------------------------------------------------------------------------------------

    def act(
        self, verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status] = tuple(Status), *, action: str | None = None
    ) -> Acted:
        with self._writing() as tables:
            acted = act(tables, verb, job_ids, statuses, self.clock.now())
            if action is not None:
                actions.count(tables, action, acted)
        self.wake()
        return acted

    def pause(self, queue: str, *, actor: str = "") -> bool:
        with self._writing() as tables:
            is_new = tables.pause(queue, self.clock.now())
            actions.note(tables, "pause", JobFilter(queues=(queue,)), actor, self.clock.now(), is_done=is_new)
        return is_new

    def resume(self, queue: str, *, actor: str = "") -> bool:
        with self._writing() as tables:
            was_paused = tables.resume(queue)
            actions.note(tables, "resume", JobFilter(queues=(queue,)), actor, self.clock.now(), is_done=was_paused)
        self.wake()
        return was_paused

    def paused(self) -> dict[str, datetime]:
        with self._reading() as tables:
            return dict(tables.paused)

    def queues(self) -> list[Queue]:
        with self._reading() as tables:
            return list_queues(tables)

    def due_periodic(self) -> PeriodicLook:
        with self._reading() as tables:
            return periodic.due_periodic(tables, self.clock.now())

    def periodic(self, names: Collection[str] | None = None) -> PeriodicLook:
        with self._reading() as tables:
            return periodic.look_at_periodic(tables, names, self.clock.now())

    def write_periodic(self, changes: Sequence[PeriodicChange]) -> list[PeriodicWritten]:
        with self._writing() as tables:
            written = periodic.write_periodic(tables, changes, self.clock.now())
        self.wake()
        return written

    def delete_periodic(self, name: str) -> bool:
        with self._writing() as tables:
            return tables.remove_periodic(name)

    def begin_action(self, action: NewAction) -> None:
        with self._writing() as tables:
            actions.begin(tables, action, self.clock.now())

    def end_action(self, action_id: str, *, was_stopped: bool = False) -> None:
        with self._writing() as tables:
            actions.end(tables, action_id, self.clock.now(), was_stopped=was_stopped)

    def actions(self, *, limit: int = 50, before: str | None = None) -> list[Action]:
        with self._reading() as tables:
            found = [one for one in tables.actions.values() if before is None or one.id < before]
        return sorted(found, key=lambda one: one.id, reverse=True)[:limit]

    def sweep(
        self, types: Collection[str] = (), *, constraints: Mapping[str, Constraint] | None = None, patience: timedelta = timedelta(0)
    ) -> Swept:
        with self._writing() as tables:
            swept = sweep.sweep(tables, frozenset(types), self.clock.now(), constraints or {})
        self.wake()
        return swept

    def recover(self, lease_owner: str, started: Collection[str]) -> Swept:
        with self._writing() as tables:
            swept = sweep.recover(tables, lease_owner, frozenset(started), self.clock.now())
        self.wake()
        return swept

    def rollups(self, since: datetime) -> list[Rollup]:
        with self._reading() as tables:
            return [one.copied() for one in tables.rollups.values() if one.minute >= minute_of(since)]

    def finished(self, look: Look) -> list[Ended]:
        with self._reading() as tables:
            return sweep.finished(tables, look, self.clock.now())

    def delete_finished(self, due: Due, *, relaxed: bool = False) -> Gone:
        with self._writing() as tables:
            return Gone(sweep.delete_finished(tables, due))

    def tidy(self, retention: Retention, *, limit: int = 1000) -> bool:
        with self._writing() as tables:
            return sweep.tidy(tables, retention, limit, self.clock.now())
