"""Leases and fences: a claim that is not the newest any more changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import LeaseLost
from onward.inspection import JobFilter
from onward.jobs import LONGEST_LEASE
from onward.outcome import Completed, DeadLettered, Outcome
from onward.status import Status
from onward.testing.conformance.steps import (
    LEASE,
    OTHER,
    OUTCOMES,
    PAST_LEASE,
    SOON,
    claim,
    claim_one,
    enqueue,
    is_settled,
    read,
    settle,
)
from onward.testing.factories import make_new_job
from onward.turn import Claim, Demand, Extension, Settlement


def lose(store: Store, clock: FakeClock) -> Claim:
    """Claim a job and let the lease run out; the job waits again."""
    enqueue(store)
    taken = claim_one(store)
    clock.advance(PAST_LEASE)
    assert [job.id for job in store.sweep().requeued] == [taken.id]
    return taken


def lose_to_another(store: Store, clock: FakeClock) -> Claim:
    """Claim a job and let another worker take it over."""
    taken = lose(store, clock)
    claim_one(store, owner=OTHER)
    return taken


def outdate_by_a_person(store: Store, clock: FakeClock) -> Claim:
    """Make a claim stale whose attempts equal those of the newest one: a person retried the job in between."""
    enqueue(store)
    taken = claim_one(store)
    settle(store, taken, DeadLettered("hopeless"))
    store.retry(taken.id)
    newest = claim_one(store, owner=taken.job.lease_owner or "")
    assert (newest.job.attempts, newest.job.lease_owner) == (taken.job.attempts, taken.job.lease_owner)
    return taken


def delete_the_row(store: Store, clock: FakeClock) -> Claim:
    """Claim a job whose row is deleted by a person later."""
    taken = lose(store, clock)
    store.delete(taken.id)
    return taken


Way = Callable[[Store, FakeClock], Claim]
WAYS: list[Way] = [lose, lose_to_another, outdate_by_a_person, delete_the_row]


def state(store: Store) -> object:
    """All that a test can see of the store."""
    jobs = store.find(JobFilter(), limit=1000)
    return [(job, store.history(job.id)) for job in jobs]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
class TestLostLease:
    """Whoever lost the claim, in whatever way, cannot change the job any more."""

    @pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=lambda outcome: outcome.name)
    def test_a_lost_claim_settles_nothing_and_enqueues_no_children(
        self, store: Store, clock: FakeClock, way: Way, outcome: Outcome
    ) -> None:
        """Another worker does the work now; two results, or children of both, would be the end of every promise."""
        if way is outdate_by_a_person and isinstance(outcome, DeadLettered):
            outcome = Completed()  # the ending that this claim really had may be told again
        taken = way(store, clock)
        before = state(store)
        child = make_new_job(key="child")
        turn = settle(store, taken, outcome, children=(child,), progress="1", keeps_history=True)
        assert not is_settled(turn)
        assert state(store) == before
        assert store.enqueue([make_new_job(key="child")])[0].is_new

    def test_a_lost_claim_cannot_be_extended(self, store: Store, clock: FakeClock, way: Way) -> None:
        """The heartbeat is how a worker learns that it should stop."""
        taken = way(store, clock)
        before = state(store)
        extended = store.extend([Extension(taken, progress="1", began_isolated=True)])
        assert (extended.lost, extended.cancel_requested) == (frozenset({taken.id}), frozenset())
        assert state(store) == before

    def test_a_lost_claim_cannot_be_confirmed_or_settled_in_a_transaction(self, store: Store, clock: FakeClock, way: Way) -> None:
        """The handler's own writes stand behind the same fence."""
        taken = way(store, clock)
        before = state(store)
        for act in ("confirm", "settle"):
            with pytest.raises(LeaseLost, match=taken.id), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
                within = store.within(connection)
                within.enqueue([make_new_job()])
                if act == "confirm":
                    within.confirm(taken)
                else:
                    within.settle(Settlement(claim=taken, outcome=Completed(), children=(make_new_job(),)))
            assert state(store) == before

    def test_a_lost_claim_does_not_undo_its_neighbours(self, store: Store, clock: FakeClock, way: Way) -> None:
        """One worker settles many in one transaction; the loss of one must not cost the others their work."""
        lost = way(store, clock)
        enqueue(store, "mail", priority=9)
        good = claim_one(store, types=("mail",))
        child = make_new_job()
        settlements = [
            Settlement(claim=lost, outcome=Completed()),
            Settlement(claim=good, outcome=Completed("1"), children=(child,)),
            Settlement(claim=lost, outcome=OUTCOMES[list(OUTCOMES)[1]]),
        ]
        turn = store.turn(settlements)
        assert turn.settled == (settlements[1],)
        assert turn.lost == (settlements[0], settlements[2])
        assert (read(store, good).status, read(store, child).status) == (Status.COMPLETED, Status.QUEUED)


class TestManyLost:
    """As a worker meets it that was frozen: everything it held is another's by now."""

    @pytest.mark.parametrize("result", [None, "1"])
    def test_many_lost_claims_settle_nothing(self, store: Store, clock: FakeClock, result: str | None) -> None:
        """Not even together, in whatever way a store ends many at once."""
        for _ in range(20):
            enqueue(store)
        taken = claim(store, 20)
        clock.advance(PAST_LEASE)
        store.sweep()
        newest = claim(store, 20, owner=OTHER)
        settlements = [Settlement(claim=one, outcome=Completed(result)) for one in taken]
        assert store.turn(settlements).lost == tuple(settlements)
        assert [read(store, one) for one in newest] == [one.job for one in newest]
        assert len(store.turn([Settlement(claim=one, outcome=Completed(result)) for one in newest]).settled) == 20
        assert {(read(store, one).status, read(store, one).result) for one in newest} == {(Status.COMPLETED, result)}

    @pytest.mark.parametrize("result", [None, "1"])
    def test_many_claims_that_were_swept_and_wait_again_settle_nothing(self, store: Store, clock: FakeClock, result: str | None) -> None:
        """Their rows have the same fence still."""
        for _ in range(20):
            enqueue(store)
        taken = claim(store, 20)
        clock.advance(PAST_LEASE)
        store.sweep()
        before = state(store)
        settlements = [Settlement(claim=one, outcome=Completed(result)) for one in taken]
        assert store.turn(settlements).lost == tuple(settlements)
        assert state(store) == before

    @pytest.mark.parametrize("result", [None, "1"])
    def test_many_endings_change_no_other_job(self, store: Store, result: str | None) -> None:
        """Each frees its key and brings its child; what else runs with the same fence goes on, here and elsewhere."""
        for number in range(22):
            enqueue(store, key=f"k{number}")
        *ending, own = claim(store, 21)
        foreign = claim_one(store, owner=OTHER)
        children = [make_new_job("mail", delay=SOON) for _ in ending]
        settlements = [
            Settlement(claim=one, outcome=Completed(result), children=(child,), keeps_history=True)
            for one, child in zip(ending, children, strict=True)
        ]
        assert store.turn(settlements).settled == tuple(settlements)
        assert {(read(store, one).status, read(store, one).result) for one in ending} == {(Status.COMPLETED, result)}
        assert [len(store.history(one.id)) for one in ending] == [1] * len(ending)
        assert [read(store, child).status for child in children] == [Status.QUEUED] * len(children)
        assert [read(store, one) for one in (own, foreign)] == [own.job, foreign.job]
        accepted = store.enqueue([make_new_job(key=f"k{number}") for number in range(22)])
        assert sorted(one.id for one in accepted if not one.is_new) == sorted([own.id, foreign.id])


class TestLease:
    """A lease holds until somebody takes it away, and the heartbeat renews it."""

    def test_an_older_claim_of_the_same_job_is_lost_though_the_newest_is_renewed(self, store: Store, clock: FakeClock) -> None:
        """A process that was frozen may hold both; its older run must learn that it is one."""
        enqueue(store)
        older = claim_one(store)
        clock.advance(PAST_LEASE)
        store.sweep()
        newest = claim_one(store)
        assert store.extend([Extension(older), Extension(newest)]).lost == {older.id}
        assert store.extend([Extension(newest)]).lost == frozenset()

    def test_a_lease_of_the_longest_kind_is_not_swept_as_one_from_the_future(self, store: Store) -> None:
        """It ends as far ahead as any may."""
        enqueue(store)
        (taken,) = store.turn(demand=Demand(lease_owner=OTHER, slots=1, types={"work": LONGEST_LEASE})).claims
        assert store.sweep().requeued == ()
        assert read(store, taken) == taken.job

    def test_only_the_claim_that_says_so_has_begun_by_itself(self, store: Store) -> None:
        """A death is charged to whoever ran alone; its neighbours have the same fence."""
        enqueue(store)
        enqueue(store)
        first, other = claim(store, 2)
        store.extend([Extension(first, began_isolated=True)])
        assert (read(store, first).ran_isolated, read(store, other).ran_isolated) == (True, False)

    def test_extending_renews_the_lease_from_now(self, store: Store, clock: FakeClock) -> None:
        """Not from where it ended: a worker that beats often must not own a job for days."""
        enqueue(store)
        taken = claim_one(store)
        clock.advance(20)
        assert store.extend([Extension(taken)]).lost == frozenset()
        assert read(store, taken).lease_until == clock.now() + LEASE

    def test_an_extended_lease_is_not_swept(self, store: Store, clock: FakeClock) -> None:
        """A long job lives as long as its worker does."""
        enqueue(store)
        taken = claim_one(store)
        for _ in range(5):
            clock.advance(LEASE / 2)
            store.extend([Extension(taken)])
            assert store.sweep().requeued == ()
        assert is_settled(settle(store, taken))

    def test_extending_stores_progress_and_silence_keeps_it(self, store: Store) -> None:
        """People watch a long job by what it last said."""
        enqueue(store)
        taken = claim_one(store)
        store.extend([Extension(taken, progress='{"done":1}')])
        store.extend([Extension(taken)])
        assert read(store, taken).progress == '{"done":1}'

    def test_extending_tells_lost_claims_from_good_ones(self, store: Store, clock: FakeClock) -> None:
        """One heartbeat carries all claims of a worker."""
        lost = lose_to_another(store, clock)
        enqueue(store)
        good = claim_one(store)
        assert store.extend([Extension(lost), Extension(good)]).lost == frozenset({lost.id})
        assert store.extend([]).lost == frozenset()

    def test_a_lease_that_ran_out_still_settles_until_it_is_swept(self, store: Store, clock: FakeClock) -> None:
        """Nobody else has the job, so the work that was done counts."""
        enqueue(store)
        taken = claim_one(store)
        clock.advance(PAST_LEASE * 10)
        assert claim(store, owner=OTHER) == ()
        assert is_settled(settle(store, taken))

    def test_the_fence_rises_with_each_claim_and_never_falls(self, store: Store, clock: FakeClock) -> None:
        """It is the one number that tells the newest claim, whatever happens to the attempts."""
        asked = enqueue(store)
        fences = []
        for outcome in OUTCOMES.values():
            if outcome.status.is_final:
                continue
            taken = claim_one(store)
            fences.append(taken.fence)
            settle(store, taken, outcome)
        claim_one(store)
        clock.advance(PAST_LEASE)
        store.sweep()
        fences.append(read(store, asked).fence)
        store.cancel(asked.id)
        store.retry(asked.id)
        fences.append(claim_one(store).fence)
        assert fences == [1, 2, 3, 4, 5]

    def test_a_short_lease_and_a_long_one_run_out_each_in_its_time(self, store: Store, clock: FakeClock) -> None:
        """The lease belongs to the claim, not to the worker."""
        short, long = enqueue(store, "work"), enqueue(store, "mail")
        for kind, lease in (("work", SOON), ("mail", timedelta(hours=2))):
            store.turn(demand=Demand(lease_owner=OTHER, slots=1, types={kind: lease}))
            store.sweep(["work", "mail"])
        clock.advance(11)
        assert [job.id for job in store.sweep().requeued] == [short.id]
        clock.advance(timedelta(hours=2))
        assert [job.id for job in store.sweep().requeued] == [long.id]
