"""Where things begin and end: the moment from which something holds, the row that is set aside, the order of rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.inspection import JobFilter, Question, Retention
from onward.jobs import LONGEST_LEASE
from onward.outcome import Retried
from onward.status import Status
from onward.testing.conformance.asked import MOMENT
from onward.testing.conformance.damage import Raw
from onward.testing.conformance.steps import LEASE, NO_DELAY, OWNER, SOON, bring_to, claim, demand, enqueue, read, settle
from onward.testing.factories import make_new_job
from onward.turn import Demand, Extension

HOUR = timedelta(hours=1)
LITTLE = timedelta(microseconds=1)


class TestMoments:
    """What holds from a moment on holds at that moment, and not a microsecond before."""

    def test_a_job_is_due(self, store: Store, clock: FakeClock) -> None:
        """Never early, and not late by a look."""
        asked = enqueue(store, delay=MOMENT)
        enqueue(store, "mail", delay=HOUR)
        clock.advance(MOMENT - LITTLE)
        turn = store.turn(demand=demand(5))
        assert (turn.claims, turn.next_due) == ((), LITTLE)
        clock.advance(LITTLE)
        assert [taken.id for taken in claim(store, 5)] == [asked.id]

    def test_when_to_look_again_is_the_time_of_what_may_run(self, store: Store) -> None:
        """What runs, has ended, or waits for another worker is nothing to wake up for; a worker that did would never sleep."""
        for status in (Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED, Status.IN_PROGRESS):
            bring_to(store, status)
        enqueue(store, "strange")
        claim(store)
        enqueue(store, delay=HOUR)
        assert store.turn(demand=demand()).next_due == HOUR
        assert store.turn(demand=demand(queues=("default", "empty"))).next_due == HOUR

    def test_the_next_look_is_at_the_first_of_all_that_wait(self, store: Store, clock: FakeClock) -> None:
        """Of every priority, and also of what waits for its next try behind what is due."""
        for priority, hours in ((5, 3), (1, 1), (0, 2)):
            enqueue(store, priority=priority, delay=HOUR * hours)
        assert store.turn(demand=demand()).next_due == HOUR
        settle(store, bring_to(store, Status.IN_PROGRESS), Retried(HOUR / 2, "boom"))
        due = enqueue(store)
        turn = store.turn(demand=demand())
        assert ([taken.id for taken in turn.claims], turn.next_due) == ([due.id], HOUR / 2)

    def test_a_job_expires(self, store: Store, clock: FakeClock) -> None:
        """Its last moment is the one before; what a person brings back then has no such moment any more."""
        asked = enqueue(store, expires=MOMENT)
        clock.advance(MOMENT - LITTLE)
        assert store.sweep().expired == ()
        clock.advance(LITTLE)
        assert [job.id for job in store.turn(demand=demand()).expired] == [asked.id]
        assert store.retry(asked.id).expires_at is None

    def test_a_retry_keeps_an_expiry_that_is_yet_to_come(self, store: Store, clock: FakeClock) -> None:
        """Whoever retries it wants it done, but in time."""
        asked = enqueue(store, expires=MOMENT)
        store.cancel(asked.id)
        clock.advance(MOMENT - LITTLE)
        assert store.retry(asked.id).expires_at == clock.now() + LITTLE

    def test_a_lease_runs_out(self, store: Store, clock: FakeClock) -> None:
        """Until then it is the worker's."""
        taken = bring_to(store, Status.IN_PROGRESS)
        clock.advance(LEASE - LITTLE)
        assert store.sweep().requeued == ()
        clock.advance(LITTLE)
        assert [job.id for job in store.sweep().requeued] == [taken.id]

    def test_the_longest_lease_is_not_taken_for_one_of_another_clock(self, store: Store, clock: FakeClock) -> None:
        """Only one that ends later still was given before the clock went back."""
        enqueue(store)
        longest = Demand(lease_owner=OWNER, slots=1, types={"work": LONGEST_LEASE})
        (taken,) = store.turn(demand=longest).claims
        assert store.sweep().requeued == ()
        assert read(store, taken).lease_until == clock.now() + LONGEST_LEASE

    def test_a_window_is_over_and_begins_anew_for_whoever_takes_it(self, store: Store, clock: FakeClock) -> None:
        """The next one has it as long as the first one had."""
        enqueue(store, payload=1, key="k", scope=HOUR)
        clock.advance(HOUR - LITTLE)
        assert not store.enqueue([make_new_job(key="k", scope=HOUR)])[0].is_new
        clock.advance(LITTLE)
        second = enqueue(store, payload=2, key="k", scope=HOUR)
        clock.advance(HOUR - LITTLE)
        (again,) = store.enqueue([make_new_job(payload=2, key="k", scope=HOUR)])
        assert (again.id, again.is_new, again.payload_differs) == (second.id, False, False)
        clock.advance(LITTLE)
        assert store.enqueue([make_new_job(key="k", scope=HOUR)])[0].is_new

    def test_a_filter_by_the_end_leaves_out_its_own_moment(self, store: Store, clock: FakeClock) -> None:
        """Who asks again from the last one that they saw must not see it twice."""
        taken = bring_to(store, Status.COMPLETED)
        for after, found in ((clock.now() - LITTLE, [taken.id]), (clock.now(), [])):
            where = JobFilter(finished_after=after)
            assert ([job.id for job in store.find(where)], store.count(where)) == (found, len(found))

    def test_the_questions_draw_the_same_lines(self, store: Store, clock: FakeClock) -> None:
        """An hour is an hour, and a lease that has run out has run out. A shell's own clock knows milliseconds."""
        bring_to(store, Status.COMPLETED)
        taken = bring_to(store, Status.IN_PROGRESS)
        clock.advance(SOON)
        store.extend([Extension(taken)])
        clock.advance(LEASE - timedelta(milliseconds=1))
        assert _answered(store, "stuck", stuck_after=SOON + LEASE) == []
        store.extend([Extension(taken)])
        clock.advance(timedelta(milliseconds=1))
        assert [row[-1] for row in _answered(store, "stuck", stuck_after=SOON + LEASE)] == ["running long"]
        clock.advance(LEASE - timedelta(milliseconds=2))
        assert _answered(store, "stuck", stuck_after=HOUR) == []
        clock.advance(timedelta(milliseconds=1))
        assert [row[-1] for row in _answered(store, "stuck", stuck_after=HOUR)] == ["lease expired"]
        clock.advance(HOUR - SOON - LEASE - LEASE + timedelta(milliseconds=1))
        assert len(_answered(store, "last-hour")) == 1
        clock.advance(timedelta(milliseconds=1))
        assert _answered(store, "last-hour") == []


def _answered(store: Store, question: Question, **how: Any) -> list[tuple[Any, ...]]:
    return list(store.answer(question, **how).rows)


class TestSetAside:
    """A row that cannot be read ends by itself, and looks ended once somebody mends it."""

    def test_its_claim_is_over_and_its_end_is_dated(self, store: Store, clock: FakeClock, damage: Raw) -> None:
        """Else it would count as running, and no prune would ever take it."""
        taken = bring_to(store, Status.IN_PROGRESS)
        damage(taken.id, "releases", 2**63 - 1)
        clock.advance(LEASE)
        store.sweep()
        damage(taken.id, "releases", 0)
        job, now = read(store, taken), clock.now()
        ended = replace(taken.job, status=Status.DEAD_LETTER, error=job.error, lease_owner=None, lease_until=None)
        assert job == replace(ended, finished_at=now, updated_at=now)

    def test_only_its_own_key_is_freed_and_only_one_that_its_end_frees(self, store: Store, clock: FakeClock, damage: Raw) -> None:
        """A window goes on, and so does the key of whoever has it now."""
        first = enqueue(store, key="k", scope=MOMENT)
        clock.advance(MOMENT)
        second = enqueue(store, key="k", delay=HOUR)
        forever = enqueue(store, key="f", scope="forever")
        for bad in (first, forever):
            damage(bad.id, "releases", 2**63 - 1)
        claim(store, 5)
        assert store.count(JobFilter(statuses=(Status.DEAD_LETTER,))) == 2
        assert store.enqueue([make_new_job(key="k")])[0].id == second.id
        assert store.enqueue([make_new_job(key="f")])[0].id == forever.id

    def test_a_running_job_is_not_ended_for_a_due_time_that_makes_no_sense(self, store: Store, damage: Raw) -> None:
        """It has begun, so that nobody will ask again when it is due."""
        taken = bring_to(store, Status.IN_PROGRESS)
        damage(taken.id, "scheduled_at", "soon")
        enqueue(store, delay=HOUR)  # so that somebody looks at all
        store.sweep()
        assert store.count(JobFilter(statuses=(Status.IN_PROGRESS,))) == 1

    def test_a_day_that_is_in_no_calendar_ends_the_job(self, store: Store, damage: Raw) -> None:
        """It begins as an instant does, and nobody would ever come to it."""
        if not store.capabilities.survives_process:
            pytest.skip("nobody but this process writes its rows, and it holds instants")
        asked = enqueue(store, delay=HOUR)
        damage(asked.id, "scheduled_at", "9999-99-99T00:00:00.000000Z")
        store.sweep()
        assert store.count(JobFilter(statuses=(Status.DEAD_LETTER,))) == 1

    def test_a_claim_without_a_lease_is_lost(self, store: Store, damage: Raw) -> None:
        """It would run for ever."""
        taken = bring_to(store, Status.IN_PROGRESS)
        damage(taken.id, "lease_until", None)
        assert [job.id for job in store.sweep().requeued] == [taken.id]

    def test_a_job_of_the_far_future_waits(self, store: Store) -> None:
        """As far as any store is promised to go."""
        asked = enqueue(store, at=datetime(9000, 12, 31, tzinfo=UTC))
        store.sweep()
        assert read(store, asked).status is Status.QUEUED


class TestOrders:
    """Where there is an order, it is the one that is promised."""

    def test_the_newest_of_two_live_holders_is_found(self, store: Store) -> None:
        """A renamed type may have one under each of its names."""
        ids = [enqueue(store, name, key="k").id for name in ("work", "mail")]
        found = store.find_active(("work", "mail"), "k", owner="")
        assert found is not None
        assert found.id == ids[1]

    @pytest.mark.parametrize("status", [status for status in Status if status.is_live])
    def test_a_live_job_is_outstanding(self, store: Store, status: Status) -> None:
        """Waiting, running, or waiting again."""
        bring_to(store, status)
        assert _answered(store, "outstanding") == [("work", status, 1)]

    @pytest.mark.parametrize("status", [status for status in Status if status.is_final])
    def test_an_ended_job_is_among_those_of_the_last_hour(self, store: Store, status: Status) -> None:
        """However it ended."""
        taken = bring_to(store, status)
        assert [row[0] for row in _answered(store, "last-hour")] == [taken.id]

    def test_only_live_jobs_with_a_key_are_duplicates(self, store: Store, clock: FakeClock) -> None:
        """By owner, whose keys are their own; what has ended is no double work any more."""
        for _ in range(2):
            for owner in ("bob", "ada"):
                settle(store, bring_to(store, Status.IN_PROGRESS, key="k", scope=SOON, owner=owner), Retried(HOUR, "boom"))
            settle(store, bring_to(store, Status.IN_PROGRESS, key="ended", scope=SOON))
            settle(store, bring_to(store, Status.IN_PROGRESS), Retried(HOUR, "boom"))
            clock.advance(SOON)
        assert _answered(store, "duplicates") == [("ada", "work", "k", 2), ("bob", "work", "k", 2)]

    @pytest.mark.parametrize("status", [status for status in Status if status.is_live])
    def test_a_holder_is_found_wherever_it_is(self, store: Store, status: Status) -> None:
        """Waiting, running, or waiting again."""
        taken = bring_to(store, status, key="k")
        assert store.find_active(("work",), "k", owner="") == read(store, taken)

    def test_what_ended_first_is_pruned_first(self, store: Store, clock: FakeClock) -> None:
        """Its time was over first."""
        first, second = (bring_to(store, Status.IN_PROGRESS) for _ in range(2))
        for taken in (second, first):
            clock.advance(1)
            settle(store, taken)
        assert store.prune(Retention(completed=NO_DELAY), limit=1) == 1
        assert [job.id for job in store.find(JobFilter())] == [first.id]

    def test_the_rows_of_each_question_stand_in_its_order(self, store: Store, clock: FakeClock) -> None:
        """By name where things are counted, else the newest first; what is stuck, the longest first."""
        ended = []
        for number in range(4):
            clock.advance(number // 2)
            ended.append(bring_to(store, Status.DEAD_LETTER, type=("work", "mail")[number % 2]).id)
            settle(store, bring_to(store, Status.IN_PROGRESS, type=("work", "mail")[number % 2]))
        running = []
        for number in range(4):
            clock.advance(number // 2)
            running.append(bring_to(store, Status.IN_PROGRESS, type=("work", "mail")[number % 2], key=str(number), scope=SOON).id)
        clock.advance(HOUR / 2)
        for number in range(4):
            enqueue(store, ("work", "mail")[number % 2], key=str(number), scope=SOON)
        assert [row[0] for row in _answered(store, "stuck")] == running
        assert [row[0] for row in _answered(store, "failed")] == ended[::-1]
        assert [row[0] for row in _answered(store, "last-hour") if row[2] == "dead_letter"] == ended[::-1]
        assert [row[0] for row in _answered(store, "durations")] == ["mail", "work"]
        assert [row[:2] for row in _answered(store, "outstanding")] == [
            *(("mail", "in_progress"), ("mail", "queued"), ("work", "in_progress"), ("work", "queued"))
        ]
        assert [row[1:3] for row in _answered(store, "duplicates")] == [("mail", "1"), ("mail", "3"), ("work", "0"), ("work", "2")]
