"""Metrics: what waits and runs just now is counted by queue and type, and what has ever ended only grows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from onward.admission import Constraint
from onward.clock import FakeClock
from onward.driver import Store
from onward.inspection import MOST_COUNTED, Retention
from onward.limit import Limit
from onward.metrics import LOST, Backlog, Total
from onward.outcome import DeadLettered, Retried
from onward.rollups import Tally, bucket_of, minute_of
from onward.status import Status
from onward.testing.conformance.rollups import end
from onward.testing.conformance.steps import NO_DELAY, PAST_LEASE, bring_to, claim, claim_one, enqueue, settle, start_alone
from onward.testing.factories import make_new_job

HOUR = timedelta(hours=1)
LATER = timedelta(days=120)


def of(store: Store, type_: str = "work", queue: str = "default") -> Backlog:
    """What waits and runs of one queue and type."""
    return next((one for one in store.backlog() if one.lane == (queue, type_)), Backlog(queue=queue, type=type_))


def counts(store: Store) -> dict[str, int]:
    """What has ever ended, by outcome."""
    found: dict[str, int] = {}
    for one in store.totals():
        found[one.outcome] = found.get(one.outcome, 0) + one.count
    return found


class TestBacklog:
    """Only due jobs wait: what is planned for later, or is done with, is no backlog."""

    def test_an_empty_store_has_none(self, store: Store) -> None:
        """Of no queue."""
        assert store.backlog() == []

    def test_due_jobs_are_counted_by_queue_and_type_whatever_their_priority(self, store: Store, clock: FakeClock) -> None:
        """In the order of the names."""
        began = clock.now()
        for priority in (0, 50, -100):
            enqueue(store, priority=priority)
            clock.advance(1)
        enqueue(store, type="mail", queue="slow")
        enqueue(store, type="mail")
        enqueue(store, at=clock.now() + HOUR)
        assert store.backlog() == [
            Backlog(queue="default", type="mail", due=1, oldest_due_at=clock.now()),
            Backlog(queue="default", type="work", due=3, oldest_due_at=began),
            Backlog(queue="slow", type="mail", due=1, oldest_due_at=clock.now()),
        ]

    def test_the_age_is_from_when_a_job_was_due(self, store: Store, clock: FakeClock) -> None:
        """Not from when it was enqueued."""
        due = clock.now() + HOUR
        enqueue(store, at=due)
        assert of(store).depth == 0
        clock.advance(2 * HOUR.total_seconds())
        assert (of(store).due, of(store).oldest_due_at) == (1, due)

    def test_what_runs_and_what_is_dead_is_counted_by_itself(self, store: Store) -> None:
        """What has completed, or was cancelled, is in no backlog."""
        for status in (Status.DEAD_LETTER, Status.DEAD_LETTER, Status.COMPLETED, Status.CANCELLED):
            bring_to(store, status)
        for _ in range(3):
            bring_to(store, Status.IN_PROGRESS)
        assert store.backlog() == [Backlog(queue="default", type="work", in_progress=3, dead_letters=2)]

    def test_a_retry_is_due_when_its_time_has_come(self, store: Store, clock: FakeClock) -> None:
        """As every other job."""
        enqueue(store)
        settle(store, claim_one(store), Retried(HOUR, "away"))
        assert of(store).depth == 0
        clock.advance(HOUR.total_seconds())
        assert of(store).due == 1

    def test_jobs_that_wait_for_others_are_counted_by_what_they_wait_for(self, store: Store, clock: FakeClock) -> None:
        """They are due, and belong to the depth and to the age."""
        began = clock.now()
        store.open_breaker("s3", HOUR)
        limit = {"work": Constraint(Limit(concurrency=1))}
        for keys in ({"breaker": "s3"}, {"concurrency_key": "k"}, {"concurrency_key": "k"}, {"serial_key": "s"}, {"serial_key": "s"}):
            fields: dict[str, Any] = dict(keys)
            enqueue(store, **fields)
        enqueue(store, type="unheard-of")
        clock.advance(5)
        assert len(claim(store, 10, constraints=limit)) == 2
        assert of(store) == Backlog(
            queue="default", type="work", blocked={"breaker": 1, "limit": 1, "serial": 1}, in_progress=2, oldest_due_at=began
        )
        assert of(store, "unheard-of") == Backlog(queue="default", type="unheard-of", blocked={"type": 1}, oldest_due_at=began)
        assert store.breakers()[0].state.status == "open"

    def test_a_paused_queue_has_a_backlog(self, store: Store) -> None:
        """Somebody has to know how much waits for it to be resumed."""
        enqueue(store)
        store.pause("default")
        assert of(store).due == 1


class TestStarved:
    """Priority is kept always, so a steady stream of higher priority leaves lower ones waiting. They must be seen."""

    def test_one_behind_more_jobs_than_are_counted_is_seen_with_its_age(self, store: Store, clock: FakeClock) -> None:
        """As long as it waits, however many stand before it."""
        began = clock.now()
        enqueue(store, type="mail", priority=-1)
        clock.advance(60)
        store.enqueue([make_new_job(priority=1, at=clock.now()) for _ in range(MOST_COUNTED)])
        store.enqueue([make_new_job(type="mail", priority=1, queue="slow", at=clock.now())])
        clock.advance(60)
        assert of(store, "mail").oldest_due_at == began
        assert (of(store, "mail").due, of(store, "mail", "slow").due) == (1, 1)
        assert of(store).due == MOST_COUNTED


class TestDueBefore:
    """How many are taken before a job: what a person asks who waits for one."""

    def test_those_of_higher_priority_and_those_due_for_longer_are_before_it(self, store: Store, clock: FakeClock) -> None:
        """And of the same instant, those with a smaller id: the order of claims."""
        made = [enqueue(store, priority=priority) for priority in (0, 0, 10, -10)]
        clock.advance(1)
        made += [enqueue(store, priority=priority) for priority in (0, 10)]
        clock.advance(1)
        order = [made[2], made[5], *sorted(made[:2], key=lambda job: job.id), made[4], made[3]]
        assert [store.due_before(store.get(job.id)) for job in order] == [0, 1, 2, 3, 4, 5]
        assert [taken.id for taken in claim(store, 6)] == [job.id for job in order]

    def test_what_is_not_due_or_runs_or_is_of_another_queue_is_not_counted(self, store: Store, clock: FakeClock) -> None:
        """It does not stand in the way."""
        bring_to(store, Status.IN_PROGRESS)
        enqueue(store, priority=50, at=clock.now() + HOUR)
        enqueue(store, priority=50, queue="slow")
        enqueue(store, type="unknown", priority=50)
        clock.advance(1)
        last = enqueue(store)
        assert store.due_before(store.get(last.id)) == 1
        assert last.id in {taken.id for taken in claim(store, 2)}
        assert store.due_before(store.get(last.id)) == 0


class TestTotals:
    """Counters for monitors: they never go back."""

    def test_what_has_ever_ended_is_known_at_once(self, store: Store, clock: FakeClock) -> None:
        """From rollups that nobody has counted yet."""
        assert store.totals() == []
        end(store, Tally("one"), count=2)
        end(store, Tally("other"))
        (total,) = store.totals()
        assert sum(total.waited.values()) == 3
        assert replace(total, waited={}) == Total(
            queue="default", type="work", outcome="completed", since=minute_of(clock.now()), count=3, ran={bucket_of(0.5): 3}
        )

    def test_they_stay_when_jobs_and_rollups_are_pruned(self, store: Store, clock: FakeClock) -> None:
        """However often that is done, and whenever."""
        began = minute_of(clock.now())
        everything = Retention(completed=NO_DELAY, dead_letter=NO_DELAY, rollups=HOUR)
        for number in range(1, 6):
            end(store, Tally(f"w{number}"), count=2)
            end(store, Tally(f"v{number}"), outcome=DeadLettered("no"))
            store.prune(everything)
            assert counts(store) == {"completed": 2 * number, "dead_lettered": number}
            clock.advance(LATER.total_seconds() if number == 3 else 400)
            store.prune(everything)
            store.prune(everything)
            assert counts(store) == {"completed": 2 * number, "dead_lettered": number}
        clock.advance(LATER.total_seconds())
        store.prune(everything)
        assert store.rollups(clock.now() - 2 * LATER) == []
        assert [(one.outcome, one.since, one.ran) for one in store.totals()] == [
            ("completed", began, {bucket_of(0.5): 10}),
            ("dead_lettered", began, {bucket_of(0.5): 5}),
        ]

    def test_a_lost_claim_is_counted_as_that(self, store: Store, clock: FakeClock) -> None:
        """And as a dead letter where it ends there. Its worker can tell of neither."""
        enqueue(store, max_attempts=2)
        enqueue(store)
        store.recover(claim_one(store).job.lease_owner or "", [])
        assert counts(store) == {}
        lost = 0
        while taken := [start_alone(store, one) for one in claim(store, 2)]:
            clock.advance(PAST_LEASE)
            store.sweep()
            lost += len(taken)
            assert counts(store)[LOST] == lost
        assert counts(store) == {LOST: lost, "dead_lettered": 2}
        assert of(store).dead_letters == 2

    def test_a_job_that_expired_is_counted(self, store: Store, clock: FakeClock) -> None:
        """By the claim that meets it, and by the sweep that finds it."""
        enqueue(store, expires=HOUR)
        clock.advance(HOUR.total_seconds())
        assert claim(store) == ()
        assert counts(store) == {"expired": 1}
        enqueue(store, expires=HOUR)
        clock.advance(HOUR.total_seconds())
        store.sweep()
        assert counts(store) == {"expired": 2}
