"""Rollups: what ended is counted per minute in the commit that ends it, once, and by each worker for itself."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.inspection import Retention
from onward.outcome import Completed, DeadLettered, Outcome, Retried
from onward.rollups import MERGED_WITHIN, Rollup, Tally, bucket_of, minute_of, summed
from onward.testing.conformance.steps import NO_DELAY, PAST_LEASE, claim, claim_one, enqueue
from onward.turn import Claim, Settlement

LONG_AGO = timedelta(days=3650)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def end(store: Store, tally: Tally, *, outcome: Outcome | None = None, count: int = 1, **fields: Any) -> None:
    """Enqueue so many jobs and end them in one turn."""
    for _ in range(count):
        enqueue(store, **fields)
    store.turn([ended(one, outcome) for one in claim(store, count)], tally=tally)


def ended(claimed: Claim, outcome: Outcome | None = None) -> Settlement:
    """A handler that took half a second."""
    return Settlement(claim=claimed, outcome=outcome or Completed(), seconds=0.5)


def counted(store: Store, clock: FakeClock) -> dict[tuple[str, str], int]:
    """How many ended by now, by worker and outcome."""
    found: dict[tuple[str, str], int] = {}
    for one in store.rollups(clock.now() - LONG_AGO):
        if one.count:
            found[one.worker, one.outcome] = found.get((one.worker, one.outcome), 0) + one.count
    return found


def rows(store: Store, clock: FakeClock) -> list[Rollup]:
    """All of them, each in its place."""
    return sorted(store.rollups(clock.now() - LONG_AGO), key=lambda one: (one.cell, one.worker))


class TestRollups:
    """A worker writes rows of its own, as absolute values."""

    def test_what_ended_is_counted_by_minute_queue_type_and_outcome(self, store: Store, clock: FakeClock) -> None:
        """Rates and percentiles never count rows of jobs."""
        tally = Tally("one")
        enqueue(store, type="mail", queue="slow")
        clock.advance(2)
        store.turn([ended(claim_one(store, types=("mail",)))], tally=tally)
        (rollup,) = store.rollups(clock.now())
        assert rollup == Rollup(
            minute=minute_of(clock.now()),
            queue="slow",
            type="mail",
            outcome="completed",
            worker="one",
            count=1,
            waited={bucket_of(2): 1},
            ran={bucket_of(0.5): 1},
        )

    def test_a_turn_adds_to_what_the_worker_counted_before(self, store: Store, clock: FakeClock) -> None:
        """In the same minute; the next one has a row of its own."""
        tally = Tally("one")
        end(store, tally, count=3)
        end(store, tally, count=2)
        assert counted(store, clock) == {("one", "completed"): 5}
        began = clock.now()
        clock.advance(60)
        end(store, tally)
        assert [(one.count, one.ran) for one in store.rollups(clock.now())] == [(1, {bucket_of(0.5): 1})]
        assert [one.ran for one in store.rollups(began) if one.count == 5] == [{bucket_of(0.5): 5}]
        assert sum(one.count for one in store.rollups(began)) == 6

    @pytest.mark.parametrize(
        ("outcome", "name"), [(DeadLettered("no"), "dead_lettered"), (Retried(NO_DELAY, "no"), "retried"), (Completed(), "completed")]
    )
    def test_each_outcome_has_a_row(self, store: Store, clock: FakeClock, outcome: Outcome, name: str) -> None:
        """Under the name that history has for it."""
        end(store, Tally("one"), outcome=outcome)
        assert counted(store, clock) == {("one", name): 1}

    def test_two_workers_never_write_the_same_row(self, store: Store, clock: FakeClock) -> None:
        """So none waits for the other, and none overwrites what the other counted."""
        one, other = Tally("one"), Tally("other")
        end(store, one, count=2)
        end(store, other)
        end(store, one)
        assert counted(store, clock) == {("one", "completed"): 3, ("other", "completed"): 1}

    def test_a_lost_claim_is_not_counted(self, store: Store, clock: FakeClock) -> None:
        """Only what was really stored counts: the newer claim's end will."""
        tally = Tally("one")
        enqueue(store)
        stale = claim_one(store)
        clock.advance(PAST_LEASE)
        store.sweep()
        enqueue(store)
        fresh = [one for one in claim(store, 2) if one.id != stale.id]
        store.turn([ended(stale), *map(ended, fresh)], tally=tally)
        assert {one: count for one, count in counted(store, clock).items() if one[1] != "lost"} == {("one", "completed"): 1}

    def test_a_turn_repeated_after_an_unknown_commit_counts_once(self, store: Store, clock: FakeClock) -> None:
        """The answer was lost, though the turn was stored; a minute later the worker asks again."""
        tally, forgotten = Tally("one"), Tally("one")
        enqueue(store)
        settlements = [ended(claim_one(store))]
        store.turn(settlements, tally=forgotten)
        tally.add(settlements, clock.now())  # the try whose answer was lost
        clock.advance(60)
        store.turn(settlements, tally=tally)
        assert counted(store, clock) == {("one", "completed"): 1}

    def test_a_try_that_stored_nothing_counts_nothing(self, store: Store, clock: FakeClock) -> None:
        """It may have been rolled back: nothing is left of it, and no row is made to say so."""
        tally = Tally("one")
        enqueue(store)
        settlements = [ended(claim_one(store))]
        tally.add(settlements, clock.now())
        clock.advance(60)
        store.turn(settlements, tally=tally)
        assert [(one.minute, one.count) for one in store.rollups(clock.now() - LONG_AGO)] == [(minute_of(clock.now()), 1)]

    def test_what_is_set_right_is_one_row_and_all_of_it(self, store: Store, clock: FakeClock) -> None:
        """The rows beside it stay as they are: another worker's, another queue's, another type's, another outcome's, another minute's."""
        end(store, Tally("one"), count=2)
        clock.advance(60)
        tally = Tally("one")
        end(store, Tally("other"), count=2)
        for fields in ({"count": 3}, {"queue": "slow"}, {"type": "mail"}, {"outcome": DeadLettered("no")}):
            end(store, tally, **fields)
        before = rows(store, clock)
        assert len(before) == 6
        enqueue(store)
        clock.advance(3)
        settlements = [ended(claim_one(store))]
        store.turn(settlements, tally=deepcopy(tally))
        assert rows(store, clock) != before
        tally.add(settlements, clock.now())  # the try whose answer was lost
        clock.advance(60)
        store.turn(settlements, tally=tally)
        minute = minute_of(clock.now())
        assert [one for one in rows(store, clock) if one.minute != minute] == before
        assert counted(store, clock) == {("one", "completed"): 8, ("other", "completed"): 2, ("one", "dead_lettered"): 1}

    def test_nothing_is_counted_without_a_tally(self, store: Store, clock: FakeClock) -> None:
        """As where no worker runs the job."""
        enqueue(store)
        store.turn([ended(claim_one(store))])
        assert store.rollups(clock.now() - LONG_AGO) == []


class TestMergedRollups:
    """The pruner makes one row of all workers' once nobody writes a minute any more."""

    def test_the_rows_of_old_minutes_are_merged_and_their_sums_stay(self, store: Store, clock: FakeClock) -> None:
        """A worker that starts anew every minute must not leave a row for each start."""
        began = clock.now()
        for name in ("one", "other", "third"):
            end(store, Tally(name), count=2)
        end(store, Tally("one"), type="mail")
        before = summed(store.rollups(began))
        clock.advance(timedelta(minutes=7))
        for _ in range(2):
            store.prune(Retention())
            assert summed(store.rollups(began)) == before
            assert sorted(one.count for one in store.rollups(began)) == [1, 6]

    def test_the_last_minutes_are_left_alone(self, store: Store, clock: FakeClock) -> None:
        """Their workers may still write."""
        began = clock.now()
        for name in ("one", "other"):
            end(store, Tally(name))
        clock.advance(timedelta(minutes=3))
        store.prune(Retention())
        assert sorted(one.worker for one in store.rollups(began)) == ["one", "other"]

    def test_which_minutes_are_merged(self, store: Store, clock: FakeClock) -> None:
        """Those that began more than five minutes ago, in the last two days: the pruner need not walk through months."""
        began = clock.now().replace(second=0, microsecond=0)
        oldest, old, new, newest = (began + age for age in (MINUTE, 2 * MINUTE, MERGED_WITHIN - 4 * MINUTE, MERGED_WITHIN - 3 * MINUTE))
        for moment in (oldest, old, new, newest):
            clock.advance(moment - clock.now())
            for name in ("one", "other"):
                end(store, Tally(name))
            alone = Tally("alone")
            for fields in ({"type": "mail"}, {"queue": "slow"}, {"outcome": DeadLettered("no")}):
                end(store, alone, **fields)
        clock.advance(began + MERGED_WITHIN + 2 * MINUTE - clock.now())
        store.prune(Retention(rollups=None))
        rows_in = {
            moment: sorted(one.worker for one in rows(store, clock) if one.minute == minute_of(moment))
            for moment in (oldest, old, new, newest)
        }
        assert rows_in[oldest] == rows_in[newest] == ["alone", "alone", "alone", "one", "other"]
        for moment in (old, new):
            assert len(rows_in[moment]) == 4
            assert rows_in[moment].count("alone") == 3

    @pytest.mark.parametrize("kept", [HOUR * 24, NO_DELAY], ids=["alone", "beside a job"])
    def test_a_minute_is_kept_for_as_long_as_was_asked(self, store: Store, clock: FakeClock, kept: timedelta) -> None:
        """By the minute, whether or not there is something else to delete."""
        end(store, Tally("one"))
        clock.advance(HOUR)
        assert store.prune(Retention(rollups=HOUR, completed=kept)) == (kept == NO_DELAY)
        assert len(rows(store, clock)) == 1
        clock.advance(MINUTE)
        store.prune(Retention(rollups=HOUR, completed=kept))
        assert rows(store, clock) == []

    def test_however_many_there_are_all_are_merged_and_deleted(self, store: Store, clock: FakeClock) -> None:
        """One prune may come every few minutes, and each minute brings as many rows as there are queues and types."""
        for number in range(7):
            for name in ("one", "other"):
                end(store, Tally(name), queue=f"q{number}")
        clock.advance(10 * MINUTE)
        store.prune(Retention(rollups=HOUR), limit=2)
        assert len(rows(store, clock)) == 7
        clock.advance(HOUR)
        store.prune(Retention(rollups=HOUR), limit=2)
        assert rows(store, clock) == []

    def test_they_outlive_their_jobs_and_end_with_their_own_retention(self, store: Store, clock: FakeClock) -> None:
        """Charts go further back than rows."""
        end(store, Tally("one"))
        clock.advance(timedelta(minutes=50))
        end(store, Tally("one"), outcome=DeadLettered("no"))
        clock.advance(timedelta(minutes=20))
        kept_long = Retention(completed=NO_DELAY, rollups=None)
        assert store.prune(kept_long) == 1
        assert counted(store, clock) != {}
        store.prune(Retention(rollups="1h"))
        assert [one.outcome for one in store.rollups(clock.now() - LONG_AGO)] == ["dead_lettered"]
