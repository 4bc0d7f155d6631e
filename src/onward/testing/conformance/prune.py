"""Prune: what finished long ago goes, by the retention of its status; what is live never does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import JobNotFound
from onward.inspection import JobFilter, Retention
from onward.outcome import Cancelled, Completed, DeadLettered
from onward.status import FINAL, Status
from onward.testing.conformance.steps import NO_DELAY, bring_to, claim, claim_one, enqueue, read, settle
from onward.testing.factories import make_new_job

DAY = timedelta(days=1)
NOTHING_KEPT = Retention(completed=NO_DELAY, cancelled=NO_DELAY, dead_letter=NO_DELAY)


class TestPrune:
    """Each final status has a retention of its own."""

    @pytest.mark.parametrize("status", sorted(FINAL))
    def test_a_job_is_kept_for_its_retention_and_no_longer(self, store: Store, clock: FakeClock, status: Status) -> None:
        """It counts from the end of the job, not from its beginning."""
        clock.advance(DAY * 3)
        taken = bring_to(store, status)
        retention = Retention(**{**dict.fromkeys(("completed", "cancelled", "dead_letter"), None), status: DAY})
        clock.advance(DAY - timedelta(microseconds=1))
        assert store.prune(retention) == 0
        clock.advance(timedelta(microseconds=1))
        assert store.prune(retention) == 1
        with pytest.raises(JobNotFound):
            store.get(taken.id)
        assert store.history(taken.id) == []

    def test_only_what_is_old_goes(self, store: Store, clock: FakeClock) -> None:
        """Beside the young of each status, and what runs."""
        old = [bring_to(store, status) for status in sorted(FINAL)]
        clock.advance(DAY)
        young = [bring_to(store, status) for status in sorted(FINAL)]
        clock.advance(DAY / 2)
        running = bring_to(store, Status.IN_PROGRESS)
        assert store.prune(Retention(completed=DAY, cancelled=DAY, dead_letter=DAY)) == len(old)
        assert {job.id for job in store.find(JobFilter())} == {one.id for one in (*young, running)}
        assert [len(store.history(one.id)) > 0 for one in old] == [False] * len(old)

    @pytest.mark.parametrize("status", sorted(FINAL))
    def test_no_retention_keeps_a_job_until_a_person_deletes_it(self, store: Store, clock: FakeClock, status: Status) -> None:
        """A dead letter is a question to a person, and time does not answer it."""
        taken = bring_to(store, status)
        clock.advance(DAY * 3650)
        everything_else = {"completed": NO_DELAY, "cancelled": NO_DELAY, "dead_letter": NO_DELAY, str(status): None}
        assert store.prune(Retention(**everything_else)) == 0
        assert read(store, taken).status is status

    @pytest.mark.parametrize("status", sorted(set(Status) - FINAL))
    def test_a_live_job_is_never_pruned(self, store: Store, clock: FakeClock, status: Status) -> None:
        """However old it is."""
        taken = bring_to(store, status)
        clock.advance(DAY * 3650)
        assert store.prune(NOTHING_KEPT) == 0
        assert read(store, taken).status is status

    def test_only_so_many_go_at_once(self, store: Store, clock: FakeClock) -> None:
        """Pruning holds the only write lock; a million rows in one go would stop everybody."""
        store.enqueue([make_new_job() for _ in range(7)])
        for taken in claim(store, 7):
            settle(store, taken, Completed())
        clock.advance(1)
        assert [store.prune(NOTHING_KEPT, limit=3) for _ in range(4)] == [3, 3, 1, 0]
        assert store.count(JobFilter()) == 0

    @pytest.mark.parametrize("limit", range(1, 8))
    def test_the_limit_is_for_all_statuses_together(self, store: Store, clock: FakeClock, limit: int) -> None:
        """Else a batch would be three times as long as its transaction may be."""
        for outcome in 2 * (Completed(), Cancelled("no"), DeadLettered("no")):
            enqueue(store)
            settle(store, claim_one(store), outcome)
        clock.advance(60)
        assert store.prune(NOTHING_KEPT, limit=limit) == min(limit, 6)
        assert store.count(JobFilter()) == 6 - min(limit, 6)

    def test_pruning_frees_no_key_of_a_live_job(self, store: Store, clock: FakeClock) -> None:
        """An old job of the same key goes; the one that has the key now keeps it."""
        enqueue(store, key="k")
        settle(store, claim_one(store))
        live = enqueue(store, key="k")
        clock.advance(1)
        assert store.prune(NOTHING_KEPT) == 1
        assert store.enqueue([make_new_job(key="k")])[0].id == live.id
