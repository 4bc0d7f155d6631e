"""A transaction of the memory store, and the verbs that join it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from onward.clock import Clock
from onward.driver import AsyncWithin, Within
from onward.drivers.memory import people
from onward.drivers.memory.enqueue import enqueue
from onward.drivers.memory.settle import holds, settle
from onward.drivers.memory.tables import Tables
from onward.errors import LeaseLost, NoTransaction, TransactionTooLong
from onward.jobs import Accepted, Job, NewJob
from onward.spelling import with_article
from onward.turn import Claim, Settlement, check_settlements


class MemoryTransaction:
    """The connection that ``MemoryStore.transaction`` gives: a snapshot that becomes the store's content at the commit."""

    def __init__(self, store: object, tables: Tables, clock: Clock, limit: timedelta | None) -> None:
        self.store = store
        self.thread = threading.get_ident()
        self.is_open = True
        self.was_too_long = False
        self._tables = tables
        self._clock = clock
        self._limit = limit
        self._deadline = None if limit is None else clock.monotonic() + limit.total_seconds()

    @property
    def is_overdue(self) -> bool:
        return self._deadline is not None and self._clock.monotonic() > self._deadline

    def tables(self) -> Tables:
        """What the transaction sees. Raises ``TransactionTooLong`` after its limit, ``NoTransaction`` after its end."""
        if self.was_too_long or self.is_overdue:
            limit = self._limit.total_seconds() if self._limit else 0
            raise TransactionTooLong(
                f"the transaction took longer than {limit:g} s and was rolled back: do slow work before it or after it"
            )
        if not self.is_open:
            raise NoTransaction("the transaction is over: use its connection inside the 'with' block")
        return self._tables


class MemoryWithin(Within):
    """The store's verbs in an open transaction."""

    def __init__(self, transaction: MemoryTransaction, clock: Clock) -> None:
        self._transaction = transaction
        self._clock = clock

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        return enqueue(self._transaction.tables(), jobs, self._clock.now())

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        return people.get(self._transaction.tables(), job_id, owner)

    def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return people.cancel(self._transaction.tables(), job_id, owner, self._clock.now(), frees=False)

    def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return people.retry(self._transaction.tables(), job_id, owner, self._clock.now())

    def confirm(self, claim: Claim) -> None:
        tables = self._transaction.tables()
        job = holds(tables, claim)
        if job is None:
            raise _lease_lost(claim)
        tables.put_job(replace(job, updated_at=self._clock.now()))

    def settle(self, settlement: Settlement) -> None:
        check_settlements([settlement])
        if not settle(self._transaction.tables(), settlement, self._clock.now()):
            raise _lease_lost(settlement.claim)


class AsyncMemoryWithin(AsyncWithin):
    """The same for callers that await. Nothing here waits, so nothing is handed to another thread."""

    def __init__(self, within: MemoryWithin) -> None:
        self._within = within

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        return self._within.enqueue(jobs)

    async def get(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._within.get(job_id, owner=owner)

    async def cancel(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._within.cancel(job_id, owner=owner)

    async def retry(self, job_id: str, *, owner: str | None = None) -> Job:
        return self._within.retry(job_id, owner=owner)

    async def confirm(self, claim: Claim) -> None:
        self._within.confirm(claim)

    async def settle(self, settlement: Settlement) -> None:
        self._within.settle(settlement)


def join(connection: Any, store: object, clock: Clock) -> MemoryWithin:
    """Give the verbs on ``connection``. Raises ``NoTransaction`` for anything but an open transaction of ``store``."""
    if not isinstance(connection, MemoryTransaction):
        raise NoTransaction(
            f"the memory store cannot join {with_article(type(connection).__name__)}: its jobs live in this process, "
            "so pass what 'with store.transaction() as connection' gives, or use a database for both"
        )
    if connection.store is not store:
        raise NoTransaction("within= was given a transaction of another memory store, which has jobs of its own: no transaction spans both")
    connection.tables()
    return MemoryWithin(connection, clock)


def _lease_lost(claim: Claim) -> LeaseLost:
    return LeaseLost(f"the claim of job {claim.id} is not the newest any more: nothing of this run was stored")
