"""What a person does to a job: cancel, retry, run now, delete; and whose jobs they may touch."""

from __future__ import annotations

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import IllegalTransition, JobNotFound
from onward.inspection import JobFilter
from onward.outcome import Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.status import Status, Verb, why_not
from onward.testing.conformance.steps import (
    NO_DELAY,
    PAST_LEASE,
    SOON,
    at_once,
    bring_to,
    claim,
    claim_one,
    demand,
    enqueue,
    is_settled,
    read,
    settle,
    start_alone,
)
from onward.testing.factories import make_new_job
from onward.turn import Extension


class TestCancel:
    """A waiting job ends at once; a running one is asked to."""

    def test_a_waiting_job_ends_at_once(self, store: Store, clock: FakeClock) -> None:
        """Nobody runs it, so nobody needs to be asked."""
        asked = enqueue(store)
        clock.advance(5)
        job = store.cancel(asked.id)
        assert (job.status, job.finished_at, job.attempts) == (Status.CANCELLED, clock.now(), 0)
        assert job == read(store, asked)
        assert claim(store) == ()

    def test_a_job_that_waits_for_its_next_try_ends_and_keeps_its_history(self, store: Store) -> None:
        """What was tried stays to be read."""
        taken = bring_to(store, Status.RETRYING)
        assert store.cancel(taken.id).status is Status.CANCELLED
        assert [kept.outcome for kept in store.history(taken.id)] == ["retried"]

    def test_a_running_job_is_asked_to_stop(self, store: Store, clock: FakeClock) -> None:
        """Its handler may be in the middle of something; the worker hears of it with the heartbeat."""
        enqueue(store)
        taken = claim_one(store)
        assert store.extend([Extension(taken)]).cancel_requested == frozenset()
        job = store.cancel(taken.id)
        asked_at = clock.now()
        assert (job.status, job.cancel_requested_at, job.fence) == (Status.IN_PROGRESS, asked_at, taken.fence)
        clock.advance(1)
        assert store.cancel(taken.id).cancel_requested_at == asked_at
        extended = store.extend([Extension(taken)])
        assert (extended.cancel_requested, extended.lost) == (frozenset({taken.id}), frozenset())

    def test_a_running_job_that_is_asked_to_stop_keeps_its_key(self, store: Store) -> None:
        """It still runs, so nobody else may begin the same work."""
        asked = enqueue(store, key="k")
        running = claim_one(store)
        store.cancel(asked.id)
        assert store.enqueue([make_new_job(key="k")])[0].id == asked.id
        settle(store, running, Retried(NO_DELAY, "no"))
        assert store.enqueue([make_new_job(key="k")])[0].is_new

    def test_a_running_job_that_completes_all_the_same_is_completed(self, store: Store) -> None:
        """The work is done; calling it cancelled would be a lie."""
        enqueue(store)
        taken = claim_one(store)
        store.cancel(taken.id)
        settle(store, taken, Completed("1"))
        assert read(store, taken).status is Status.COMPLETED

    @pytest.mark.parametrize("outcome", [Retried(NO_DELAY, "boom"), Snoozed(NO_DELAY), Released()], ids=lambda one: one.name)
    def test_a_running_job_that_would_run_again_is_cancelled_instead(self, store: Store, outcome: Outcome) -> None:
        """The request may have come after the worker's last look; only the store sees both."""
        enqueue(store, key="k")
        taken = claim_one(store)
        store.cancel(taken.id)
        assert is_settled(settle(store, taken, outcome))
        job = read(store, taken)
        assert (job.status, job.finished_at is None, job.lease_owner) == (Status.CANCELLED, False, None)
        assert claim(store) == ()
        assert store.enqueue([make_new_job(key="k")])[0].is_new

    def test_a_lost_claim_that_was_to_be_cancelled_does_not_run_again(self, store: Store, clock: FakeClock) -> None:
        """A person said stop; the death of the worker does not unsay it."""
        enqueue(store)
        taken = claim_one(store)
        store.cancel(taken.id)
        clock.advance(PAST_LEASE)
        store.sweep()
        assert read(store, taken).status is Status.CANCELLED
        assert claim(store) == ()


class TestRetry:
    """A dead or cancelled job begins anew, under the same id."""

    def test_a_dead_job_begins_anew(self, store: Store, clock: FakeClock) -> None:
        """All its tries are back, its error is gone, its history stays."""
        enqueue(store, max_attempts=1, isolated=True)
        start_alone(store, claim_one(store))
        clock.advance(PAST_LEASE)
        (dead,) = store.sweep().dead_lettered
        clock.advance(60)
        job = store.retry(dead.id)
        assert (job.status, job.attempts, job.error, job.finished_at) == (Status.QUEUED, 0, None, None)
        assert (job.lost_leases, job.releases, job.snoozes, job.cancel_requested_at) == (0, 0, 0, None)
        assert (job.fence, job.scheduled_at, job.created_at) == (1, clock.now(), dead.created_at)
        assert [kept.outcome for kept in store.history(dead.id)] == ["lost"]
        assert claim_one(store).job.attempts == 1

    def test_a_cancelled_job_begins_anew_and_may_be_cancelled_again(self, store: Store) -> None:
        """A request to stop belongs to the run that it stopped."""
        taken = bring_to(store, Status.IN_PROGRESS)
        store.cancel(taken.id)
        settle(store, taken, Released())
        assert store.retry(taken.id).cancel_requested_at is None
        again = claim_one(store)
        assert is_settled(settle(store, again, Retried(NO_DELAY, "boom")))
        assert read(store, again).status is Status.RETRYING

    @pytest.mark.parametrize("key", [None, "k"], ids=["without a key", "with a key"])
    def test_of_many_who_retry_at_once_one_queues_it(self, store: Store, key: str | None) -> None:
        """The others are told that it waits already: none makes a second job, and none gives back the tries of one that runs."""
        taken = bring_to(store, Status.DEAD_LETTER, key=key)

        def retry(number: int) -> str:
            try:
                return store.retry(taken.id).status.value
            except IllegalTransition as refused:
                return str(refused)

        refusal = why_not(taken.id, Status.QUEUED, Verb.RETRY_BY_HAND)
        assert sorted(at_once(6, retry)) == sorted(["queued", *[refusal] * 5])
        again = claim(store, 5)
        assert [(one.id, one.job.attempts) for one in again] == [(taken.id, 1)]
        with pytest.raises(IllegalTransition, match="in_progress"):
            store.retry(taken.id)


class TestRunNow:
    """A waiting job becomes due."""

    @pytest.mark.parametrize("retrying", [False, True])
    def test_a_waiting_job_becomes_due(self, store: Store, clock: FakeClock, retrying: bool) -> None:
        """The provider is back; nobody wants to wait out the back-off. The try it has used stays used."""
        asked = enqueue(store, delay=NO_DELAY if retrying else SOON)
        if retrying:
            settle(store, claim_one(store), Retried(SOON, "boom"))
        clock.advance(1)
        assert claim(store) == ()
        job = store.run_now(asked.id)
        assert (job.status, job.scheduled_at, job.attempts) == (Status.QUEUED, clock.now(), int(retrying))
        assert claim_one(store).id == asked.id


class TestDelete:
    """Deleted is gone, with its history; but never from under a handler."""

    @pytest.mark.parametrize("status", [status for status in Status if status is not Status.IN_PROGRESS])
    def test_a_deleted_job_is_gone(self, store: Store, status: Status) -> None:
        """A job may hold what somebody asked to be forgotten."""
        taken = bring_to(store, status)
        store.delete(taken.id)
        with pytest.raises(JobNotFound):
            store.get(taken.id)
        assert store.history(taken.id) == []
        assert claim(store) == ()

    def test_a_running_job_is_not_deleted(self, store: Store) -> None:
        """Its handler would go on, and nobody would know what it did."""
        taken = bring_to(store, Status.IN_PROGRESS)
        with pytest.raises(IllegalTransition, match="in_progress"):
            store.delete(taken.id)
        assert is_settled(settle(store, taken))


class TestOwner:
    """A foreign job is as missing as one that never was."""

    @pytest.mark.parametrize("verb", ["get", "cancel", "retry", "run_now", "delete"])
    def test_a_foreign_job_and_a_missing_one_are_the_same(self, store: Store, verb: str) -> None:
        """The difference would tell a stranger that the job exists."""
        taken = bring_to(store, Status.DEAD_LETTER, owner="ada")
        errors = []
        for job_id, owner in ((taken.id, "bob"), (taken.id, ""), (make_new_job().id, "bob"), (make_new_job().id, None)):
            with pytest.raises(JobNotFound) as missing:
                getattr(store, verb)(job_id, owner=owner)
            errors.append(str(missing.value).replace(job_id, "…"))
        assert len(set(errors)) == 1
        assert read(store, taken).status is Status.DEAD_LETTER

    def test_the_owner_may_do_what_others_may_not(self, store: Store) -> None:
        """And so may those who ask without an owner: they see everything."""
        taken = bring_to(store, Status.DEAD_LETTER, owner="ada")
        assert store.get(taken.id, owner="ada").id == taken.id
        assert store.get(taken.id).owner == "ada"
        assert store.retry(taken.id, owner="ada").status is Status.QUEUED
        assert store.run_now(taken.id, owner="ada").status is Status.QUEUED
        assert store.cancel(taken.id, owner="ada").status is Status.CANCELLED
        store.delete(taken.id, owner="ada")
        assert store.count(JobFilter()) == 0

    def test_an_id_that_is_none_is_not_found(self, store: Store) -> None:
        """Whatever a person types is looked up, not interpreted."""
        asked = enqueue(store, owner="ada")
        for mistyped in ("", "x", "'; --", "\u2028", "9" * 10_000, "\0", "a\0b", "\ud800"):
            for act in (store.get, store.cancel, store.retry, store.run_now, store.delete):
                with pytest.raises(JobNotFound):
                    act(mistyped)
                with pytest.raises(JobNotFound):
                    act(asked.id, owner=mistyped)
            assert store.history(mistyped) == []
            for where in (JobFilter(ids=(mistyped,)), JobFilter(key=mistyped), JobFilter(owner=mistyped), JobFilter(queues=(mistyped,))):
                assert (store.find(where), store.count(where)) == ([], 0)

    def test_a_worker_serves_jobs_of_every_owner(self, store: Store) -> None:
        """Who may see a job is not who may run it."""
        for owner in ("", "ada", "bob"):
            enqueue(store, owner=owner)
        assert [taken.job.owner for taken in store.turn(demand=demand(5)).claims] == ["", "ada", "bob"]

    def test_a_dead_job_s_error_is_there_for_its_owner(self, store: Store) -> None:
        """Reading is what most people do."""
        enqueue(store, owner="ada")
        taken = claim_one(store)
        settle(store, taken, DeadLettered("hopeless"))
        assert store.get(taken.id, owner="ada").error == "hopeless"
