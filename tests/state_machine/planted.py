"""Stores that get one verb wrong, each of which the machine must tell from a right one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from onward.admission import Constraint
from onward.drivers.memory import MemoryStore, actions
from onward.drivers.memory.transaction import MemoryTransaction
from onward.inspection import Acted, BulkVerb
from onward.jobs import Accepted, Attempt, Job, NewJob
from onward.outcome import Cancelled, Snoozed
from onward.rollups import Tally
from onward.status import Status
from onward.turn import Claim, Demand, Extended, Extension, Settlement, Swept, Turn


class KeepsTheTryOfALoss(MemoryStore):
    """The sweep forgets to give a try back."""

    def sweep(
        self, types: Collection[str] = (), *, constraints: Mapping[str, Constraint] | None = None, patience: timedelta = timedelta(0)
    ) -> Swept:
        swept = super().sweep(types, constraints=constraints, patience=patience)
        for job in swept.requeued:
            self.overwrite(job.id, attempts=job.attempts + 1)
        return swept


class SettlesForAnybody(MemoryStore):
    """A settlement is believed whatever its fence."""

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        rows = {job.id: job for job in self._tables.jobs.values() if job.status is Status.IN_PROGRESS}
        newest = [replace(one, claim=Claim(rows.get(one.claim.id, one.claim.job), one.claim.lease)) for one in settlements]
        return super().turn(newest, demand, tally)


class RenewsForAnybody(MemoryStore):
    """A heartbeat is believed whatever its fence."""

    def extend(self, extensions: Sequence[Extension]) -> Extended:
        rows = {job.id: job for job in self._tables.jobs.values() if job.status is Status.IN_PROGRESS}
        newest = [replace(one, claim=Claim(rows.get(one.claim.id, one.claim.job), one.claim.lease)) for one in extensions]
        return super().extend(newest)


class ChargesWhatHadNotBegun(MemoryStore):
    """The death of a process counts for all that it held."""

    def recover(self, lease_owner: str, started: Collection[str]) -> Swept:
        return super().recover(lease_owner, {job.id for job in self.held(lease_owner)})


class CommitsWhatWasRolledBack(MemoryStore):
    """An exception in a transaction undoes nothing."""

    @contextmanager
    def transaction(self, *, limit: timedelta | None = None) -> Iterator[MemoryTransaction]:
        failure: Exception | None = None
        with super().transaction(limit=limit) as connection:
            try:
                yield connection
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure


class FreesNoKey(MemoryStore):
    """A deleted job's key is never free again."""

    def delete(self, job_id: str, *, owner: str | None = None) -> None:
        keys = self._tables.keys.copy()
        super().delete(job_id, owner=owner)
        self._tables.keys = keys


class RunsItSoon(MemoryStore):
    """A job that a person runs now waits for its time all the same."""

    def run_now(self, job_id: str, *, owner: str | None = None) -> Job:
        due = self.get(job_id, owner=owner).scheduled_at
        super().run_now(job_id, owner=owner)
        self.overwrite(job_id, scheduled_at=due)
        return self.get(job_id)


class ForgetsLosses(MemoryStore):
    """The history says nothing of lost leases."""

    def history(self, job_id: str) -> list[Attempt]:
        return [kept for kept in super().history(job_id) if kept.outcome != "lost"]


class HearsNoCancel(MemoryStore):
    """A job that was asked to stop snoozes all the same."""

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        for one in settlements:
            row = self._tables.jobs.get(one.claim.id)
            if row is not None and row.cancel_requested_at is not None and not isinstance(one.outcome, Cancelled | Snoozed):
                self.overwrite(row.id, cancel_requested_at=None)
        return super().turn(settlements, demand, tally)


class AcceptsHalf(MemoryStore):
    """Of an enqueue that is refused, what came before is stored."""

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        return [accepted for job in jobs for accepted in super(AcceptsHalf, self).enqueue([job])]


class ForgetsAtClose(MemoryStore):
    """What was enqueued last is gone when the store is opened again."""

    def close(self) -> None:
        super().close()
        waiting: list[Any] = [job for job in self._tables.jobs.values() if job.status is Status.QUEUED]
        if waiting:
            self.delete(waiting[-1].id)


class CountsWhatWasAsked(MemoryStore):
    """The record says what was asked for, and not what was done."""

    def act(
        self, verb: BulkVerb, job_ids: Sequence[str], statuses: Sequence[Status] = tuple(Status), *, action: str | None = None
    ) -> Acted:
        acted = super().act(verb, job_ids, statuses)
        actions.count(self._tables, action or "", Acted(tuple(job_ids)))
        return acted


class KnowsNoLimit(MemoryStore):
    """What the code of a worker says of its limits is not listened to."""

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        return super().turn(settlements, None if demand is None else replace(demand, constraints={}), tally)


class HearsOfNoFailure(MemoryStore):
    """No breaker ever opens by itself."""

    def turn(self, settlements: Sequence[Settlement] = (), demand: Demand | None = None, tally: Tally | None = None) -> Turn:
        heard = [replace(one, run_ending="other") if one.run_ending == "failure" else one for one in settlements]
        return super().turn(heard, demand, tally)


class LosesTheLine(MemoryStore):
    """Who waits behind another is let go on by every sweep."""

    def sweep(
        self, types: Collection[str] = (), *, constraints: Mapping[str, Constraint] | None = None, patience: timedelta = timedelta(0)
    ) -> Swept:
        for job in [job for job in self._tables.jobs.values() if job.blocked_by == "serial"]:
            self.overwrite(job.id, blocked_by=None)
        return super().sweep(types, constraints=constraints, patience=patience)


PLANTED = (
    KeepsTheTryOfALoss,
    SettlesForAnybody,
    RenewsForAnybody,
    ChargesWhatHadNotBegun,
    CommitsWhatWasRolledBack,
    FreesNoKey,
    RunsItSoon,
    ForgetsLosses,
    HearsNoCancel,
    AcceptsHalf,
    ForgetsAtClose,
    CountsWhatWasAsked,
    KnowsNoLimit,
    HearsOfNoFailure,
    LosesTheLine,
)
