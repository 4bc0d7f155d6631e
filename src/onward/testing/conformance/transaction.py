"""Transactions: what joins one is accepted when it commits, and was never there when it does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import DuplicateJob, JobNotFound, NoTransaction, StoreError, TransactionOpen, TransactionTooLong
from onward.inspection import JobFilter, Retention
from onward.outcome import Completed, DeadLettered, Retried
from onward.status import Status
from onward.testing.conformance.steps import NO_DELAY, SOON, claim, claim_one, demand, enqueue, is_woken, read, settle
from onward.testing.factories import make_new_job
from onward.turn import Extension, Settlement


class Change(Exception):
    """What a caller's code raises in the middle of its transaction."""


@pytest.fixture(autouse=True)
def needs_transactions(store: Store) -> None:
    """Leave out the rest of this file for a store that says it has none."""
    if not store.capabilities.has_transactions:
        pytest.skip(f"{store.capabilities.name} has no transactions")


class TestTransaction:
    """Commit or nothing."""

    def test_a_job_is_accepted_when_the_transaction_commits(self, store: Store) -> None:
        """The promise and the data it belongs to become true in the same moment."""
        asked = make_new_job(payload=1, key="k")
        with store.transaction() as connection:
            (accepted,) = store.within(connection).enqueue([asked])
            assert store.within(connection).get(asked.id).status is Status.QUEUED
        assert (accepted.id, accepted.is_new) == (asked.id, True)
        assert claim_one(store).id == asked.id

    def test_its_commit_wakes_a_worker(self, store: Store) -> None:
        """What is enqueued beside a caller's data starts as soon as what is enqueued alone."""
        store.open()

        def act() -> None:
            with store.transaction() as connection:
                store.within(connection).enqueue([make_new_job()])

        assert is_woken(store, act)

    def test_a_rollback_leaves_no_trace(self, store: Store) -> None:
        """No row, no key, no history; never seen and never run."""
        asked = make_new_job(key="k")
        with pytest.raises(Change), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
            store.within(connection).enqueue([asked])
            raise Change
        with pytest.raises(JobNotFound):
            store.get(asked.id)
        assert claim(store) == ()
        assert store.enqueue([make_new_job(key="k")])[0].is_new

    def test_nobody_else_sees_a_job_before_the_commit(self, store: Store) -> None:
        """Another thread reads while the transaction is open, and sees what was committed."""
        asked, seen = make_new_job(), []
        with store.transaction() as connection:
            store.within(connection).enqueue([asked])
            other = Thread(target=lambda: seen.append(store.count(JobFilter())))
            other.start()
            other.join(timeout=30)
        assert seen == [0]
        assert store.count(JobFilter()) == 1

    def test_a_refused_job_does_not_spoil_the_transaction(self, store: Store) -> None:
        """The caller may catch the error and commit the rest."""
        enqueue(store, key="k")
        fine = make_new_job()
        with store.transaction() as connection:
            within = store.within(connection)
            with pytest.raises(DuplicateJob):
                within.enqueue([make_new_job(key="free"), make_new_job(key="k", on_duplicate="raise")])
            within.enqueue([fine])
        assert read(store, fine).status is Status.QUEUED
        assert store.count(JobFilter()) == 2

    def test_a_job_may_be_cancelled_and_retried_in_a_transaction(self, store: Store) -> None:
        """What a person does may belong to the application's data, too."""
        waiting, dead = enqueue(store, priority=-1), enqueue(store)
        settle(store, claim_one(store), DeadLettered("hopeless"))
        for keep in (False, True):
            try:
                with store.transaction() as connection:
                    within = store.within(connection)
                    assert within.cancel(waiting.id).status is Status.CANCELLED
                    assert within.retry(dead.id).status is Status.QUEUED
                    if not keep:
                        raise Change
            except Change:
                assert (read(store, waiting).status, read(store, dead).status) == (Status.QUEUED, Status.DEAD_LETTER)
        assert (read(store, waiting).status, read(store, dead).status) == (Status.CANCELLED, Status.QUEUED)

    def test_owners_hold_in_a_transaction(self, store: Store) -> None:
        """A foreign job is missing here as everywhere."""
        asked = enqueue(store, owner="ada")
        with store.transaction() as connection:
            within = store.within(connection)
            assert within.get(asked.id, owner="ada").id == asked.id
            for act in (within.get, within.cancel, within.retry):
                with pytest.raises(JobNotFound):
                    act(asked.id, owner="bob")

    def test_a_connection_that_is_none_is_refused(self, store: Store) -> None:
        """Better an error now than a job outside the transaction."""
        with pytest.raises(NoTransaction):
            store.within(object())

    def test_the_connection_is_of_no_use_after_the_end(self, store: Store) -> None:
        """A job that was enqueued through it would belong to nothing."""
        with store.transaction() as connection:
            pass
        with pytest.raises(NoTransaction):
            store.within(connection).enqueue([make_new_job()])


class TestEffectOnce:
    """Fence check, writes, children and completion are one commit: the effect happens exactly once."""

    def test_confirm_and_settle_in_one_transaction(self, store: Store) -> None:
        """This is what a handler's own transaction does."""
        enqueue(store, key="k")
        taken, child = claim_one(store), make_new_job("mail", key="child")
        with store.transaction() as connection:
            within = store.within(connection)
            within.confirm(taken)
            within.settle(Settlement(claim=taken, outcome=Completed("1"), children=(child,), keeps_history=True))
        assert (read(store, taken).status, read(store, taken).result) == (Status.COMPLETED, "1")
        assert [kept.outcome for kept in store.history(taken.id)] == ["completed"]
        assert read(store, child).status is Status.QUEUED
        assert store.enqueue([make_new_job(key="k")])[0].is_new

    def test_a_rollback_keeps_the_claim(self, store: Store) -> None:
        """The handler failed; its worker still has the job, and says how it ended."""
        enqueue(store, key="k")
        taken = claim_one(store)
        before = read(store, taken)
        with pytest.raises(Change), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
            within = store.within(connection)
            within.confirm(taken)
            within.settle(Settlement(claim=taken, outcome=Completed(), children=(make_new_job(key="child"),)))
            raise Change
        assert read(store, taken) == before
        assert not store.enqueue([make_new_job(key="k")])[0].is_new
        assert store.enqueue([make_new_job(key="child", delay=SOON)])[0].is_new
        assert settle(store, taken, Retried(NO_DELAY, "Change")).settled


class TestTransactionOpen:
    """A call that could only wait for its own thread says so at once."""

    def test_the_other_verbs_refuse_the_thread_that_is_inside(self, store: Store) -> None:
        """Otherwise the call would wait for a lock that only its own caller can give back."""
        asked = enqueue(store)
        taken = claim_one(store)
        verbs: dict[str, Callable[[], Any]] = {
            "enqueue": lambda: store.enqueue([make_new_job()]),
            "turn": lambda: store.turn(demand=demand()),
            "settle": lambda: settle(store, taken),
            "extend": lambda: store.extend([Extension(taken)]),
            "cancel": lambda: store.cancel(asked.id),
            "retry": lambda: store.retry(asked.id),
            "run now": lambda: store.run_now(asked.id),
            "delete": lambda: store.delete(asked.id),
            "sweep": store.sweep,
            "recover": lambda: store.recover("host:1:one", ()),
            "prune": lambda: store.prune(Retention()),
        }
        before = read(store, asked)
        with store.transaction() as connection:
            for act in verbs.values():
                with pytest.raises(TransactionOpen, match="within"):
                    act()
            with pytest.raises(TransactionOpen), store.transaction():
                pass
            store.within(connection).enqueue([make_new_job(key="k")])
        assert read(store, asked) == before
        assert store.count(JobFilter()) == 2

    def test_a_thread_can_ask_whether_it_is_inside(self, store: Store) -> None:
        """Whoever gathers calls of many threads must know which of them could only wait for itself. Another thread is not inside."""
        elsewhere: list[bool] = []

        def ask_elsewhere() -> None:
            other = Thread(target=lambda: elsewhere.append(store.inside_transaction))
            other.start()
            other.join(timeout=30)

        assert not store.inside_transaction
        with store.transaction():
            assert store.inside_transaction
            ask_elsewhere()
        assert not store.inside_transaction
        with pytest.raises(Change), store.transaction():
            raise Change
        assert not store.inside_transaction
        ask_elsewhere()
        assert elsewhere == [False, False]

    def test_another_thread_waits_for_its_turn(self, store: Store) -> None:
        """Being second is not an error."""
        asked = make_new_job()
        other = Thread(target=lambda: store.enqueue([asked]))
        with store.transaction() as connection:
            other.start()
            store.within(connection).enqueue([make_new_job()])
        other.join(timeout=30)
        assert read(store, asked).status is Status.QUEUED
        assert store.count(JobFilter()) == 2

    def test_after_the_end_all_verbs_work_again(self, store: Store) -> None:
        """However it ended."""
        with store.transaction():
            pass
        with pytest.raises(Change), store.transaction():
            raise Change
        enqueue(store)
        assert len(claim(store)) == 1


class TestTransactionTooLong:
    """A transaction with a limit does not hold the store for longer."""

    def test_a_transaction_past_its_limit_is_rolled_back_and_lets_others_in(self, store: Store, clock: FakeClock) -> None:
        """All other writers wait for it. Every later use says why nothing was stored, the commit too, also when an error was swallowed."""
        asked = make_new_job()
        answers: list[bool | StoreError] = []

        def enqueue_meanwhile() -> None:
            try:
                answers.append(store.enqueue([asked])[0].is_new)
            except StoreError as error:
                answers.append(error)

        other = Thread(target=enqueue_meanwhile)
        limit = timedelta(seconds=0.2)  # real time where the store watches with a timer of its own
        with pytest.raises(TransactionTooLong), store.transaction(limit=limit) as connection:  # noqa: PT012 - a transaction is its block
            within = store.within(connection)
            within.enqueue([make_new_job()])
            clock.advance(1)
            other.start()
            other.join(timeout=30)
            assert answers == [True]
            for _ in range(2):
                with pytest.raises(TransactionTooLong):
                    within.enqueue([make_new_job()])
        assert [job.id for job in store.find(JobFilter())] == [asked.id]

    def test_a_transaction_within_its_limit_commits(self, store: Store, clock: FakeClock) -> None:
        """The limit is for those who break it."""
        with store.transaction(limit=timedelta(minutes=5)) as connection:
            store.within(connection).enqueue([make_new_job()])
            clock.advance(60)
        assert store.count(JobFilter()) == 1
