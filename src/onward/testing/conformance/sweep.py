"""Sweep and recover: what its worker lost runs again, and what kills its worker ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.inspection import JobFilter
from onward.jobs import Job
from onward.outcome import MOST_LOSSES, Completed
from onward.status import Status
from onward.testing.conformance.steps import (
    LEASE,
    OTHER,
    OWNER,
    PAST_LEASE,
    at_once,
    claim,
    claim_one,
    enqueue,
    is_settled,
    read,
    settle,
    start_alone,
)
from onward.testing.factories import make_new_job
from onward.turn import Extension, Settlement


class TestSweep:
    """A lease that ran out gives the job back."""

    def test_a_lost_job_waits_again_and_is_isolated_next_time(self, store: Store, clock: FakeClock) -> None:
        """The loss is counted, the try is not, and the next run has no neighbour that it could take along."""
        asked = enqueue(store)
        claim_one(store)
        clock.advance(PAST_LEASE)
        (job,) = store.sweep().requeued
        assert job == read(store, asked)
        assert (job.status, job.attempts, job.lost_leases, job.releases) == (Status.QUEUED, 0, 1, 0)
        assert (job.lease_owner, job.lease_until, job.isolated) == (None, None, False)
        assert job.error
        taken = claim_one(store)
        assert (taken.job.isolated, taken.job.ran_isolated, taken.job.attempts, taken.fence) == (True, False, 1, 2)

    @pytest.mark.parametrize("known", [(), ("work",), ("another",)], ids=["none", "its own", "another"])
    def test_a_sweep_takes_back_what_ran_out_whatever_types_its_worker_knows(
        self, store: Store, clock: FakeClock, known: tuple[str, ...]
    ) -> None:
        """The workers of a type may all be gone, and those that are left still free its jobs for the next ones."""
        asked = enqueue(store)
        claim_one(store)
        clock.advance(PAST_LEASE)
        assert [job.id for job in store.sweep(known).requeued] == [asked.id]

    def test_a_lease_that_still_runs_is_left_alone(self, store: Store, clock: FakeClock) -> None:
        """Sweeping is safe at any time."""
        enqueue(store)
        claim_one(store)
        clock.advance(LEASE - timedelta(microseconds=1))
        swept = store.sweep()
        assert (swept.requeued, swept.dead_lettered, swept.expired, swept.unblocked) == ((), (), (), 0)

    def test_the_try_is_given_back_to_a_job_that_had_not_run_alone(self, store: Store, clock: FakeClock) -> None:
        """Its neighbour may have killed the process, also while it waited to run alone; only a run of its own can tell."""
        enqueue(store, max_attempts=1)
        for losses in (1, 2):
            taken = claim_one(store)
            assert taken.job.isolated is (losses == 2)
            clock.advance(PAST_LEASE)
            (job,) = store.sweep().requeued
            assert (job.attempts, job.lost_leases) == (0, losses)

    def test_that_a_claim_ran_alone_is_said_by_its_worker_and_forgotten_by_the_next_claim(self, store: Store, clock: FakeClock) -> None:
        """What one run did is no proof against the next."""
        asked = enqueue(store, max_attempts=3, isolated=True)
        first = claim_one(store)
        store.extend([Extension(first)])
        assert not read(store, asked).ran_isolated
        start_alone(store, first)
        store.extend([Extension(first)])
        assert read(store, asked).ran_isolated
        clock.advance(PAST_LEASE)
        assert [job.attempts for job in store.sweep().requeued] == [1]
        second = claim_one(store)
        assert not read(store, asked).ran_isolated
        assert store.extend([Extension(first, began_isolated=True)]).lost == {asked.id}
        assert not read(store, asked).ran_isolated
        clock.advance(PAST_LEASE)
        assert [(job.attempts, job.fence) for job in store.sweep().requeued] == [(1, second.fence)]

    def test_a_job_that_is_always_lost_before_it_starts_ends_all_the_same(self, store: Store, clock: FakeClock) -> None:
        """From the twentieth loss on each counts as a try."""
        asked = enqueue(store, max_attempts=2)
        for _ in range(MOST_LOSSES):
            claim_one(store)
            clock.advance(PAST_LEASE)
            assert [job.id for job in store.sweep().requeued] == [asked.id]
        claim_one(store)
        clock.advance(PAST_LEASE)
        assert [job.id for job in store.sweep().dead_lettered] == [asked.id]
        assert (read(store, asked).attempts, read(store, asked).lost_leases) == (2, MOST_LOSSES + 1)

    def test_a_job_that_kills_its_process_alone_and_has_no_try_left_is_dead(self, store: Store, clock: FakeClock) -> None:
        """Nobody else can be to blame."""
        asked = enqueue(store, max_attempts=1, isolated=True)
        start_alone(store, claim_one(store))
        clock.advance(PAST_LEASE)
        swept = store.sweep()
        assert (swept.requeued, [job.id for job in swept.dead_lettered]) == ((), [asked.id])
        job = read(store, asked)
        assert (job.status, job.attempts, job.finished_at, job.lease_owner) == (Status.DEAD_LETTER, 1, clock.now(), None)
        assert job.error

    def test_a_job_that_always_kills_its_process_is_claimed_once_more_than_it_may_try(self, store: Store, clock: FakeClock) -> None:
        """So a poison pill ends, whatever it shared its process with."""
        asked = enqueue(store, max_attempts=3)
        claims = 0
        for taken in iter(lambda: claim(store), ()):
            claims += 1
            if taken[0].job.isolated:
                start_alone(store, taken[0])
            clock.advance(PAST_LEASE)
            store.sweep()
            assert claims <= 4
        assert (claims, read(store, asked).status, read(store, asked).attempts) == (4, Status.DEAD_LETTER, 3)
        assert [kept.outcome for kept in store.history(asked.id)] == ["lost"] * 4

    def test_a_lost_claim_is_kept_in_the_history(self, store: Store, clock: FakeClock) -> None:
        """A job whose workers die is found by its history, not by its error."""
        enqueue(store)
        taken = claim_one(store)
        clock.advance(PAST_LEASE)
        store.sweep()
        (kept,) = store.history(taken.id)
        assert (kept.outcome, kept.attempt, kept.fence, kept.lease_owner) == ("lost", 1, 1, OWNER)
        assert (kept.started_at, kept.finished_at) == (taken.job.started_at, clock.now())

    def test_a_lease_absurdly_far_ahead_has_run_out(self, store: Store, clock: FakeClock) -> None:
        """The clock was a year ahead when it was given; waiting for it would be waiting for ever."""
        clock.step(timedelta(days=365))
        enqueue(store)
        claim_one(store)
        clock.step(timedelta(days=-365))
        assert len(store.sweep().requeued) == 1

    def test_a_second_sweep_finds_nothing(self, store: Store, clock: FakeClock) -> None:
        """One loss is one loss."""
        enqueue(store)
        claim_one(store)
        clock.advance(PAST_LEASE)
        store.sweep()
        assert store.sweep().requeued == ()

    def test_sweeps_at_once_give_each_job_back_once(self, store: Store, clock: FakeClock) -> None:
        """Every worker sweeps; a loss that is counted twice would kill a job that is innocent."""
        store.enqueue([make_new_job() for _ in range(20)])
        claim(store, 20)
        clock.advance(PAST_LEASE)
        swept = at_once(4, lambda number: store.sweep())
        assert sum(len(one.requeued) for one in swept) == 20
        assert {job.lost_leases for job in store.find(JobFilter(), limit=20)} == {1}

    def test_completing_and_sweeping_at_once_have_one_winner(self, store: Store, clock: FakeClock) -> None:
        """Either the work counted and nothing is given back, or it is given back and the work is told that it came too late."""
        for _ in range(20):
            enqueue(store)
            taken = claim_one(store)
            clock.advance(PAST_LEASE)
            done: list[Settlement] = []
            swept: list[Job] = []

            def act(number: int) -> None:
                if number:
                    swept.extend(store.sweep().requeued)  # noqa: B023 - called within this round
                else:
                    done.extend(store.turn([Settlement(claim=taken, outcome=Completed())]).settled)  # noqa: B023 - as above

            at_once(2, act)
            assert len(done) + len(swept) == 1
            assert read(store, taken).status is (Status.COMPLETED if done else Status.QUEUED)
            if swept:
                settle(store, claim_one(store))


class TestRecover:
    """A process that is known to be dead: its claims come back at once."""

    def test_a_started_job_is_lost_and_another_one_released(self, store: Store) -> None:
        """Only what had really started can have killed the process; the rest is not charged for it."""
        started, waiting = enqueue(store), enqueue(store)
        claim(store, 2)
        swept = store.recover(OWNER, {started.id})
        assert {job.id for job in swept.requeued} == {started.id, waiting.id}
        lost, released = read(store, started), read(store, waiting)
        assert (lost.status, lost.attempts, lost.lost_leases) == (Status.QUEUED, 0, 1)
        assert (released.status, released.attempts, released.lost_leases) == (Status.QUEUED, 0, 0)
        assert [kept.outcome for kept in store.history(started.id)] == ["lost"]
        assert {taken.id: taken.job.isolated for taken in claim(store, 2)} == {started.id: True, waiting.id: False}

    def test_a_lonely_killer_without_tries_is_dead(self, store: Store) -> None:
        """The same rule as for the sweep, only sooner."""
        asked = enqueue(store, max_attempts=1, isolated=True)
        start_alone(store, claim_one(store))
        assert [job.id for job in store.recover(OWNER, {asked.id}).dead_lettered] == [asked.id]

    def test_an_isolated_job_is_not_blamed_for_a_death_that_it_did_not_share(self, store: Store) -> None:
        """Its handler ran in a process of its own, and the worker's died of something else."""
        asked = enqueue(store, max_attempts=1, isolated=True)
        claim(store)
        assert [job.id for job in store.recover(OWNER, {asked.id}).requeued] == [asked.id]
        assert (read(store, asked).attempts, read(store, asked).lost_leases) == (0, 1)

    def test_only_the_claims_of_that_owner_come_back(self, store: Store) -> None:
        """Its neighbour on the same host lives."""
        enqueue(store)
        enqueue(store)
        claim_one(store, owner=OTHER)
        mine = claim_one(store)
        assert [job.id for job in store.recover(OWNER, ()).requeued] == [mine.id]
        assert len(store.held(OTHER)) == 1
        assert store.recover("host:9:nobody", ()).requeued == ()

    def test_a_recovered_claim_is_not_valid_any_more(self, store: Store) -> None:
        """Should the process be alive after all, it changes nothing."""
        enqueue(store)
        taken = claim_one(store)
        store.recover(OWNER, {taken.id})
        assert not is_settled(settle(store, taken))
        assert read(store, taken).status is Status.QUEUED

    def test_a_job_that_ended_before_the_process_died_is_left_alone(self, store: Store) -> None:
        """The map of started jobs may be a moment behind."""
        enqueue(store)
        taken = claim_one(store)
        settle(store, taken)
        swept = store.recover(OWNER, {taken.id})
        assert (swept.requeued, read(store, taken).status) == ((), Status.COMPLETED)
