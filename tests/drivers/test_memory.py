"""What only the memory store has."""

from __future__ import annotations

import asyncio
import signal
import threading
from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.drivers.memory import MemoryStore
from onward.drivers.memory.tables import Tables
from onward.errors import LeaseLost, NoTransaction, OnwardError, StoreBusy
from onward.outcome import Completed
from onward.status import Status
from onward.testing.conformance.steps import bring_to, enqueue
from onward.testing.factories import make_new_job
from onward.turn import Settlement
from tests.unit.making import make_job


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock=clock)


def test_enqueued_jobs_and_scheduled_jobs_are_listed_in_their_order(store: MemoryStore, clock: FakeClock) -> None:
    """What runs next comes first; what is done or running is in neither list."""
    bring_to(store, Status.IN_PROGRESS)
    low, high = enqueue(store, priority=-1), enqueue(store, priority=1)
    later, sooner = enqueue(store, delay=timedelta(hours=2), priority=9), enqueue(store, delay=timedelta(hours=1))
    assert [job.id for job in store.enqueued_jobs] == [high.id, low.id]
    assert [job.id for job in store.scheduled_jobs] == [sooner.id, later.id]
    clock.advance(timedelta(hours=3))
    assert [job.id for job in store.enqueued_jobs] == [later.id, high.id, sooner.id, low.id]


def test_the_memory_store_has_no_sql(store: MemoryStore) -> None:
    """Asked for a query, it says what to do instead."""
    with pytest.raises(OnwardError, match="no SQL"):
        store.question_sql("failed")


def test_a_foreign_connection_is_refused_by_its_type(store: MemoryStore) -> None:
    """A job in memory cannot join a database's transaction, and pretending would lose it."""
    with pytest.raises(NoTransaction, match="dict"):
        store.within({})
    with pytest.raises(NoTransaction, match="dict"):
        store.within_async({})


def test_an_awaiting_caller_has_the_same_verbs(store: MemoryStore) -> None:
    """Code that awaits its database in production awaits the memory store in tests."""
    taken = bring_to(store, Status.IN_PROGRESS)
    waiting, dead, child = enqueue(store), bring_to(store, Status.DEAD_LETTER, priority=1), make_new_job()

    async def scenario() -> None:
        with store.transaction() as connection:
            within = store.within_async(connection)
            await within.enqueue([make_new_job()])
            assert (await within.get(waiting.id)).status is Status.QUEUED
            await within.cancel(waiting.id)
            await within.retry(dead.id)
            await within.confirm(taken)
            await within.settle(Settlement(claim=taken, outcome=Completed(), children=(child,)))
            with pytest.raises(LeaseLost):
                await within.confirm(taken)

    asyncio.run(scenario())
    assert [store.get(one.id).status for one in (taken, waiting, dead, child)] == [
        Status.COMPLETED,
        Status.CANCELLED,
        Status.QUEUED,
        Status.QUEUED,
    ]


def test_a_verb_does_not_wait_for_ever_for_a_transaction_of_another_thread(clock: FakeClock) -> None:
    """A hung test should end with an error that names the cause."""
    store = MemoryStore(clock=clock, busy_after=timedelta(milliseconds=1))
    errors: list[Exception] = []

    def act() -> None:
        try:
            enqueue(store)
        except StoreBusy as error:
            errors.append(error)

    with store.transaction():
        other = threading.Thread(target=act)
        other.start()
        other.join(timeout=30)
    (error,) = errors
    assert "nothing was changed" in str(error)
    assert store.enqueued_jobs == []


def test_wake_may_be_called_by_a_signal_handler_that_interrupts_the_wait(store: MemoryStore) -> None:
    """The handler runs in the very thread that waits, and must not wait for it."""
    before = signal.signal(signal.SIGUSR1, lambda *_: store.wake())
    try:
        main = threading.main_thread().ident
        assert main is not None
        alarm = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGUSR1))
        alarm.start()
        assert store.wait(timedelta(seconds=30))
        alarm.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_claim_s_cost_does_not_grow_with_what_is_final_running_or_blocked() -> None:
    """A long suite on one store stays quick: a claim looks at what waits and at nothing else."""
    tables = Tables()
    for number, status in enumerate(Status):
        tables.put_job(make_job(id=f"{status}", status=status))
        tables.put_job(make_job(id=f"blocked {number}", status=status, blocked_by="type"))
    assert set(tables.waiting) == {"queued", "retrying"}
    tables.put_job(make_job(id="queued", status=Status.IN_PROGRESS))
    tables.remove_job(tables.jobs["retrying"])
    assert set(tables.waiting) == set()
