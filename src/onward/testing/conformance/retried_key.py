"""Keys of jobs that a person retries."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import DuplicateJob
from onward.inspection import JobFilter, Retention
from onward.jobs import NewJob
from onward.outcome import DeadLettered
from onward.status import Status
from onward.testing.conformance.steps import at_once, claim_one, enqueue, read, settle
from onward.testing.conformance.unique import HOUR, is_free
from onward.testing.factories import make_new_job


class TestKeyOfARetry:
    """A retry by a person takes the key again, or is refused by name."""

    @pytest.mark.parametrize("scope", ["active", HOUR, "forever"])
    def test_a_retried_job_holds_its_key_again(self, store: Store, scope: timedelta | str) -> None:
        """It is live again, so it stands for the work again."""
        held = enqueue(store, key="k", scope=scope)
        settle(store, claim_one(store), DeadLettered("hopeless"))
        store.retry(held.id)
        assert store.enqueue([make_new_job(key="k", scope=scope)])[0].id == held.id
        settle(store, claim_one(store))
        assert is_free(store, scope=scope) == (scope == "active")

    def test_a_retried_job_takes_a_window_that_was_over(self, store: Store, clock: FakeClock) -> None:
        """The key must not be free while the job that needs it runs."""
        enqueue(store, key="other", delay=HOUR * 9)
        held = enqueue(store, key="k", scope=HOUR)
        settle(store, claim_one(store), DeadLettered("hopeless"))
        clock.advance(HOUR * 2)
        store.retry(held.id)
        assert not is_free(store, scope=HOUR)
        settle(store, claim_one(store))
        clock.advance(HOUR / 2)
        assert not is_free(store, scope=HOUR), "it is a window again, and no key that the end of the job frees"
        clock.advance(HOUR)
        assert is_free(store, scope=HOUR)

    def test_a_retried_job_takes_the_key_of_its_own_owner(self, store: Store) -> None:
        """Two owners may use the same text."""
        held = enqueue(store, key="k", owner="ada")
        settle(store, claim_one(store), DeadLettered("hopeless"))
        store.retry(held.id)
        assert not is_free(store, owner="ada")
        assert is_free(store)

    def test_a_retry_is_refused_while_another_job_has_the_key(self, store: Store) -> None:
        """Two live jobs under one key is what the key forbids; the person is told which one to look at."""
        dead = enqueue(store, key="k")
        settle(store, claim_one(store), DeadLettered("hopeless"))
        newer = enqueue(store, key="k")
        before = read(store, dead)
        with pytest.raises(DuplicateJob, match=rf"held by job {newer.id}: job .* cannot run beside it") as refused:
            store.retry(dead.id)
        assert refused.value.job_id == newer.id
        assert read(store, dead) == before
        store.cancel(newer.id)
        assert store.retry(dead.id).status is Status.QUEUED

    def test_a_retry_is_refused_while_the_next_window_is_running_whatever_became_of_its_job(self, store: Store, clock: FakeClock) -> None:
        """The work was done in this window; that the row which did it is pruned by now does not let it be done twice."""
        dead = enqueue(store, key="k", scope=HOUR)
        settle(store, claim_one(store), DeadLettered("hopeless"))
        clock.advance(HOUR)
        newer = enqueue(store, key="k", scope=HOUR)
        settle(store, claim_one(store))
        clock.advance(HOUR / 2)
        assert store.prune(Retention(completed=HOUR / 4)) == 1
        with pytest.raises(DuplicateJob, match=f"held by job {newer.id}") as refused:
            store.retry(dead.id)
        assert refused.value.job_id == newer.id
        assert read(store, dead).status is Status.DEAD_LETTER
        clock.advance(HOUR / 2)
        assert store.retry(dead.id).status is Status.QUEUED
        assert not is_free(store, scope=HOUR)

    def test_a_retry_is_refused_by_a_key_that_was_taken_for_ever(self, store: Store, clock: FakeClock) -> None:
        """A newer release may ask for longer than the older one did; then the work is done once and for all."""
        dead = enqueue(store, key="k")
        settle(store, claim_one(store), DeadLettered("hopeless"))
        newer = enqueue(store, key="k", scope="forever")
        settle(store, claim_one(store))
        clock.advance(HOUR * 24 * 3650)
        store.prune(Retention(completed=HOUR))
        with pytest.raises(DuplicateJob, match=f"held by job {newer.id}"):
            store.retry(dead.id)
        acted = store.act("retry", [dead.id])
        assert acted.done == ()
        assert newer.id in acted.refused[dead.id]

    def test_a_retry_and_an_enqueue_at_once_make_one_live_job(self, store: Store) -> None:
        """Whichever comes first has the key, and the other is told whose it is."""
        for round_ in range(5):
            dead = enqueue(store, key=f"k{round_}")
            settle(store, claim_one(store), DeadLettered("hopeless"))
            asked = [make_new_job(payload=number, key=f"k{round_}") for number in range(3)]

            def ask(number: int, dead: NewJob = dead, asked: list[NewJob] = asked) -> str:
                if number < len(asked):
                    return store.enqueue([asked[number]])[0].id
                try:
                    return store.retry(dead.id).id
                except DuplicateJob as refused:
                    return refused.job_id

            assert len(set(at_once(4, ask))) == 1
            assert store.count(JobFilter(key=f"k{round_}", statuses=(Status.QUEUED,))) == 1
            store.cancel(store.find(JobFilter(key=f"k{round_}", statuses=(Status.QUEUED,)))[0].id)

    def test_of_two_retries_at_once_one_gets_the_key(self, store: Store) -> None:
        """Two people press the button for two dead jobs of one key."""
        dead = []
        for _ in range(2):
            dead.append(enqueue(store, key="k"))
            settle(store, claim_one(store), DeadLettered("hopeless"))

        def retry(number: int) -> bool:
            try:
                store.retry(dead[number].id)
            except DuplicateJob:
                return False
            return True

        assert sorted(at_once(2, retry)) == [False, True]
        assert store.count(JobFilter(statuses=(Status.QUEUED,))) == 1
