"""Prune: what finished long ago goes, by the retention of its status, type and queue; what is live never does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward.actions import new_action
from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import JobNotFound
from onward.inspection import JobFilter, Kept, Retention
from onward.outcome import Cancelled, Completed, DeadLettered
from onward.pruning import Due, Look
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
        ages: dict[str, Any] = {"completed": None, "cancelled": None, "dead_letter": None, str(status): DAY}
        retention = Retention(**ages)
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
        everything_else: dict[str, Any] = {"completed": NO_DELAY, "cancelled": NO_DELAY, "dead_letter": NO_DELAY, str(status): None}
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

    def test_types_and_queues_have_retentions_of_their_own(self, store: Store, clock: FakeClock) -> None:
        """The type counts before the queue, the queue before the rest, and what one does not say is asked of the next."""
        retention = Retention(
            completed=DAY,
            cancelled=DAY,
            types={"short": Kept(completed=DAY / 24), "kept": Kept(completed=None)},
            queues={"slow": Kept(completed=2 * DAY)},
        )
        jobs = {(type_, queue): make_new_job(type_, queue=queue) for type_ in ("short", "kept", "work") for queue in ("default", "slow")}
        store.enqueue(list(jobs.values()))
        for taken in claim(store, 6, types=("short", "kept", "work")):
            settle(store, taken, Cancelled("no") if taken.job.type == "kept" and taken.job.queue == "slow" else Completed())
        left = []
        for age in (DAY / 24, DAY, 2 * DAY, 9 * DAY):
            clock.advance(age)
            store.prune(retention)
            found = {job.id for job in store.find(JobFilter())}
            left.append({names for names, job in jobs.items() if job.id in found})
        kept = {("kept", "default")}
        assert left == [{*kept, ("kept", "slow"), ("work", "default"), ("work", "slow")}, {*kept, ("work", "slow")}, kept, kept]

    def test_what_is_kept_does_not_hide_what_is_due(self, store: Store, clock: FakeClock) -> None:
        """It stands first, and there may be more of it than are looked at together."""
        store.enqueue([make_new_job("kept") for _ in range(5)])
        for taken in claim(store, 5, types=("kept",)):
            settle(store, taken, Completed())
        clock.advance(1)
        due = enqueue(store)
        settle(store, claim_one(store))
        clock.advance(1)
        rows = store.finished(Look(Status.COMPLETED, NO_DELAY, limit=5))
        assert {row.type for row in rows} == {"kept"}
        assert [row.id for row in store.finished(Look(Status.COMPLETED, NO_DELAY, since=rows[-1].finished_at))][-1] == due.id
        assert store.prune(Retention(completed=NO_DELAY, types={"kept": Kept(completed=None)})) == 1
        assert {job.type for job in store.find(JobFilter())} == {"kept"}

    def test_finished_jobs_are_read_from_the_oldest_on(self, store: Store, clock: FakeClock) -> None:
        """From an instant on, that one included, at least so old, and no more than asked for."""
        began = clock.now()
        ids = []
        for _ in range(4):
            ids.append(enqueue(store).id)
            settle(store, claim_one(store))
            clock.advance(60)
        minute = timedelta(minutes=1)

        def read(**asked: Any) -> list[str]:
            return [row.id for row in store.finished(Look(Status.COMPLETED, **asked))]

        assert read(age=NO_DELAY) == ids
        assert read(age=2 * minute) == ids[:3]
        assert read(age=2 * minute + timedelta(microseconds=1)) == ids[:2]
        assert read(age=NO_DELAY, since=began + minute) == ids[1:]
        assert read(age=NO_DELAY, since=began + minute, limit=2) == ids[1:3]
        assert store.finished(Look(Status.CANCELLED, NO_DELAY)) == []
        (first,) = store.finished(Look(Status.COMPLETED, NO_DELAY, limit=1))
        assert (first.type, first.queue, first.finished_at, first.age) == ("work", "default", began, 4 * minute)

    def test_only_what_was_looked_at_is_deleted(self, store: Store, clock: FakeClock) -> None:
        """Somebody may have retried it in between: then it is live, or has finished again, and later."""
        taken = {name: bring_to(store, Status.DEAD_LETTER) for name in ("dead", "live", "again", "other")}
        upto = store.finished(Look(Status.DEAD_LETTER, NO_DELAY))[-1].finished_at
        clock.advance(60)
        for name in ("again", "live"):
            store.retry(taken[name].id)
            if name == "again":
                settle(store, claim_one(store), DeadLettered("no"))
        ids = (*(one.id for one in taken.values()), make_new_job().id)
        assert store.delete_finished(Due(Status.COMPLETED, upto, ids)).count == 0
        assert store.delete_finished(Due(Status.DEAD_LETTER, upto, ids), relaxed=True).count == 2
        assert {job.id for job in store.find(JobFilter())} == {taken["again"].id, taken["live"].id}
        assert [len(store.history(one.id)) > 0 for one in taken.values()] == [False, True, True, False]

    def test_tidying_says_whether_there_is_more(self, store: Store, clock: FakeClock) -> None:
        """Whoever asked for little at once goes on."""
        for name in ("a", "b", "c"):
            store.end_action(_began(store, name))
        clock.advance(DAY)
        assert [store.tidy(Retention(actions=DAY), limit=2) for _ in range(2)] == [True, False]
        assert store.actions() == []

    def test_a_store_that_holds_nothing_gives_nothing_back(self, store: Store) -> None:
        assert not store.give_back()


def _began(store: Store, actor: str) -> str:
    action = new_action("cancel", JobFilter(queues=("default",)), actor=actor, matched=1)
    store.begin_action(action)
    return action.id
