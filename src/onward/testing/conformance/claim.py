"""Claim: in order, never early, one job to one worker, and nothing held back by what cannot run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.durations import LONGEST
from onward.ids import new_id
from onward.inspection import JobFilter
from onward.outcome import EXPIRED, Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import (
    LEASE,
    NO_DELAY,
    OTHER,
    OWNER,
    SOON,
    at_once,
    claim,
    claim_everything,
    claim_one,
    demand,
    enqueue,
    is_settled,
    read,
    settle,
)
from onward.testing.factories import make_new_job
from onward.turn import Demand


class TestClaim:
    """A claim marks the job as ours, and nobody else gets it."""

    def test_a_claim_names_its_owner_and_counts_a_try(self, store: Store, clock: FakeClock) -> None:
        """All that proves the claim later is written by it."""
        asked = enqueue(store, payload=1)
        taken = claim_one(store)
        job = taken.job
        assert job == store.get(asked.id)
        assert (job.status, job.attempts, job.fence, job.lease_owner) == (Status.IN_PROGRESS, 1, 1, OWNER)
        assert (job.started_at, job.lease_until, taken.lease) == (clock.now(), clock.now() + LEASE, LEASE)

    def test_a_claimed_job_is_not_given_again(self, store: Store) -> None:
        """One job, one worker."""
        enqueue(store)
        assert len(claim(store, 5)) == 1
        assert claim(store, 5, owner=OTHER) == ()

    def test_no_more_is_taken_than_there_are_slots(self, store: Store) -> None:
        """A job that waits in a worker without a slot is a job that no other worker runs."""
        store.enqueue([make_new_job() for _ in range(5)])
        assert len(claim(store, 2)) == 2
        assert claim(store, 0) == ()
        assert len(claim(store, 10)) == 3

    def test_the_lease_is_the_one_of_its_type(self, store: Store, clock: FakeClock) -> None:
        """A slow type asks for a longer lease than its neighbour in the same turn."""
        enqueue(store, "work")
        enqueue(store, "mail")
        wanted = Demand(lease_owner=OWNER, slots=2, types={"work": LEASE, "mail": LEASE * 2})
        leases = {taken.job.type: (taken.lease, taken.job.lease_until) for taken in store.turn(demand=wanted).claims}
        assert leases == {"work": (LEASE, clock.now() + LEASE), "mail": (LEASE * 2, clock.now() + LEASE * 2)}

    def test_workers_that_claim_at_once_share_the_jobs(self, store: Store) -> None:
        """Every job is run by exactly one of them."""
        asked = {job.id for job in [enqueue(store, payload=number) for number in range(40)]}
        shares = at_once(8, lambda number: [taken.id for taken in claim_everything(store, 3, owner=f"host:{number}:x")])
        everything = [job_id for share in shares for job_id in share]
        assert len(everything) == 40
        assert set(everything) == asked

    def test_held_lists_what_an_owner_has(self, store: Store) -> None:
        """After an unknown commit a worker asks what it was given without being told."""
        store.enqueue([make_new_job() for _ in range(3)])
        mine = {taken.id for taken in claim(store, 2)}
        claim(store, 1, owner=OTHER)
        assert {job.id for job in store.held(OWNER)} == mine
        assert store.held("host:9:nobody") == []


class TestOrder:
    """Priority first, then the time it is due, then the id."""

    def test_the_highest_priority_comes_first(self, store: Store) -> None:
        """Higher runs first, and the default is 0."""
        for priority in (0, -100, 100, 5):
            enqueue(store, priority=priority)
        assert [taken.job.priority for taken in claim(store, 4)] == [100, 5, 0, -100]

    def test_within_a_priority_what_was_due_first_comes_first(self, store: Store, clock: FakeClock) -> None:
        """First due, first run, whatever was enqueued first."""
        late, early = enqueue(store, delay=timedelta(seconds=2)), enqueue(store, delay=timedelta(seconds=1))
        clock.advance(5)
        assert [taken.id for taken in claim(store, 2)] == [early.id, late.id]

    def test_jobs_due_at_the_same_moment_run_by_id(self, store: Store) -> None:
        """Ids rise with time, so this is the order of enqueueing; and it is the same on every store."""
        ids = [new_id() for _ in range(10)]
        store.enqueue([make_new_job(id=job_id) for job_id in reversed(ids)])
        assert [taken.id for taken in claim(store, 10)] == ids

    def test_the_order_holds_across_turns_and_queues(self, store: Store) -> None:
        """A worker of several queues takes the most urgent job of all of them, one turn at a time."""
        for queue, priority in (("a", 1), ("b", 3), ("a", 2), ("c", 9), ("b", 0)):
            enqueue(store, queue=queue, priority=priority)
        taken = [claim_one(store, queues=("a", "b")).job for _ in range(4)]
        assert [(job.queue, job.priority) for job in taken] == [("b", 3), ("a", 2), ("a", 1), ("b", 0)]
        assert claim(store, 5, queues=("a", "b")) == ()

    def test_no_queue_named_means_every_queue(self, store: Store) -> None:
        """A worker started without ``--queues`` must not miss a queue that was added later."""
        for queue in ("a", "b", "brand-new"):
            enqueue(store, queue=queue)
        assert {taken.job.queue for taken in claim(store, 10)} == {"a", "b", "brand-new"}

    def test_a_queue_that_is_not_served_is_left_alone(self, store: Store) -> None:
        """Another worker's queue must not be claimed, blocked or counted as due."""
        asked = enqueue(store, queue="other")
        turn = store.turn(demand=demand(5, queues=("mine",)))
        assert (turn.claims, turn.next_due) == ((), None)
        assert read(store, asked).status is Status.QUEUED


class TestDue:
    """Never early; and the worker is told how long it may sleep."""

    def test_a_job_is_not_run_early(self, store: Store, clock: FakeClock) -> None:
        """Not by a microsecond; and at the moment itself it is due."""
        enqueue(store, delay=SOON)
        clock.advance(SOON - timedelta(microseconds=1))
        assert claim(store) == ()
        clock.advance(timedelta(microseconds=1))
        assert len(claim(store)) == 1

    def test_a_retry_waits_for_its_back_off(self, store: Store, clock: FakeClock) -> None:
        """The delay counts from the moment it is settled."""
        enqueue(store)
        clock.advance(5)
        settle(store, claim_one(store), Retried(SOON, "boom"))
        clock.advance(SOON - timedelta(microseconds=1))
        assert claim(store) == ()
        clock.advance(timedelta(microseconds=1))
        assert claim_one(store).job.attempts == 2

    @pytest.mark.parametrize("outcome", [Retried(LONGEST, "boom"), Snoozed(LONGEST)], ids=["retried", "snoozed"])
    def test_the_longest_wait_that_can_be_asked_for_is_kept(self, store: Store, clock: FakeClock, outcome: Retried | Snoozed) -> None:
        """A hundred years, to the microsecond: neither is it an error, nor does it wrap to a moment that has passed."""
        enqueue(store)
        taken = claim_one(store)
        assert is_settled(settle(store, taken, outcome))
        assert read(store, taken).scheduled_at == clock.now() + LONGEST
        turn = store.turn(demand=demand())
        assert (turn.claims, turn.next_due) == ((), LONGEST)
        clock.advance(LONGEST - timedelta(microseconds=1))
        assert claim(store) == ()
        clock.advance(timedelta(microseconds=1))
        assert claim_one(store).id == taken.id

    @pytest.mark.parametrize("queues", [(), ("c", "a", "b")], ids=["every queue", "named queues"])
    def test_jobs_that_wait_for_another_try_are_found_in_every_lane(self, store: Store, clock: FakeClock, queues: tuple[str, ...]) -> None:
        """In whatever queue and priority, and behind others of the same; and how long the next one still waits is known."""
        lanes = [(queue, priority) for queue in ("a", "b", "c") for priority in (0, 5)]
        jobs = [enqueue(store, queue=queue, priority=priority) for queue, priority in lanes * 2]
        claims = {taken.id: taken for taken in claim(store, len(jobs), queues=queues)}
        for number, job in enumerate(jobs, start=1):
            settle(store, claims[job.id], Retried(SOON * number, "boom"))
        for job in jobs:
            turn = store.turn(demand=demand(len(jobs), queues=queues))
            assert (turn.claims, turn.next_due) == ((), SOON)
            clock.advance(SOON)
            turn = store.turn(demand=demand(len(jobs), queues=queues))
            assert ([taken.id for taken in turn.claims], turn.next_due) == ([job.id], None if job is jobs[-1] else SOON)

    def test_next_due_says_how_long_to_sleep(self, store: Store) -> None:
        """Nothing waits: for ever. Something waits: until then. More is due than was taken: not at all."""
        assert store.turn(demand=demand(1)).next_due is None
        enqueue(store, delay=SOON * 2)
        enqueue(store, delay=SOON)
        assert store.turn(demand=demand(1)).next_due == SOON
        store.enqueue([make_new_job(), make_new_job()])
        assert store.turn(demand=demand(1)).next_due == NO_DELAY
        assert store.turn(demand=demand(1)).next_due == SOON

    def test_a_future_job_of_high_priority_holds_nothing_back(self, store: Store) -> None:
        """What is due runs, whatever more important is still to come."""
        enqueue(store, priority=100, delay=SOON)
        due = enqueue(store, priority=-100)
        assert claim_one(store).id == due.id

    def test_a_turn_without_demand_claims_nothing(self, store: Store) -> None:
        """A stopping worker still settles."""
        enqueue(store)
        turn = store.turn()
        assert (turn.claims, turn.expired, turn.next_due) == ((), (), None)


class TestExpiry:
    """A job whose time is over ends cancelled, and never runs."""

    def test_a_job_past_its_expiry_ends_cancelled_and_is_not_run(self, store: Store, clock: FakeClock) -> None:
        """A reminder for this morning must not go out tonight."""
        asked = enqueue(store, delay=SOON, expires=SOON)
        clock.advance(21)
        turn = store.turn(demand=demand(1))
        job = read(store, asked)
        assert (turn.claims, turn.expired) == ((), (job,))
        assert (job.status, job.error, job.attempts, job.finished_at) == (Status.CANCELLED, EXPIRED, 0, clock.now())

    def test_a_job_within_its_time_runs(self, store: Store, clock: FakeClock) -> None:
        """The expiry counts from when it is due, not from when it was enqueued."""
        enqueue(store, delay=SOON, expires=SOON)
        clock.advance(19)
        assert len(claim(store)) == 1

    def test_a_running_job_does_not_expire(self, store: Store, clock: FakeClock) -> None:
        """It began in time; what it does may be half done."""
        enqueue(store, expires=SOON)
        taken = claim_one(store)
        clock.advance(30)
        assert store.sweep().expired == ()
        assert settle(store, taken).settled

    def test_an_expired_job_does_not_use_up_a_slot(self, store: Store, clock: FakeClock) -> None:
        """A thousand stale reminders must not starve the job behind them."""
        stale = {enqueue(store, expires=SOON, priority=9).id for _ in range(5)}
        fresh = enqueue(store)
        clock.advance(30)
        assert [taken.id for taken in claim_everything(store, 1)] == [fresh.id]
        assert {job.id for job in store.find(JobFilter(statuses=(Status.CANCELLED,)))} == stale

    def test_the_sweep_ends_what_expired_also_where_no_worker_serves(self, store: Store, clock: FakeClock) -> None:
        """A queue without workers must not keep the promise of running one day."""
        asked = enqueue(store, queue="deserted", expires=SOON)
        clock.advance(11)
        expired = store.sweep().expired
        assert expired == (read(store, asked),)
        assert (expired[0].status, expired[0].error) == (Status.CANCELLED, EXPIRED)
        assert store.sweep().expired == ()

    def test_an_expired_job_that_a_person_retries_runs(self, store: Store, clock: FakeClock) -> None:
        """A person who says "again" means it; expiring at once would make the verb useless."""
        asked = enqueue(store, expires=SOON)
        clock.advance(30)
        store.sweep()
        store.retry(asked.id)
        assert claim_one(store).id == asked.id
