"""Serial order: of the jobs that share a serial key one runs at a time, each to its end, in order; other keys are not held back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from onward.admission import Constraint
from onward.clock import FakeClock
from onward.driver import Store
from onward.jobs import NewJob
from onward.outcome import Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import OTHER, PAST_LEASE, SOON, claim, claim_one, demand, enqueue, read, settle
from onward.testing.factories import make_new_job
from onward.turn import BLOCKED_PER_TURN, Claim, Settlement

STOPS = {"work": Constraint(stops_at_dead_letter=True)}


def line(store: Store, count: int, key: str = "k", **fields: Any) -> list[NewJob]:
    """So many jobs of one serial key, in the order in which they were enqueued."""
    return [enqueue(store, serial_key=key, **fields) for _ in range(count)]


def ids(claims: Iterable[Claim]) -> list[str]:
    """Which jobs were claimed, in order."""
    return [one.id for one in claims]


class TestSerialOrder:
    """One after the other, whatever becomes of each."""

    def test_one_runs_and_the_others_wait_and_spend_no_try(self, store: Store) -> None:
        """Also within one claim of many."""
        first, *others = line(store, 4)
        assert ids(claim(store, 10)) == [first.id]
        for asked in others:
            job = read(store, asked)
            assert (job.status, job.blocked_by, job.attempts, job.fence) == (Status.QUEUED, "serial", 0, 0)
        turn = store.turn(demand=demand(10, owner=OTHER))
        assert (turn.claims, turn.next_due) == ((), None)

    def test_other_keys_and_jobs_without_one_go_on(self, store: Store) -> None:
        """Past those that wait, however many they are."""
        first, *_ = line(store, 5, priority=50)
        other, plain = enqueue(store, serial_key="other"), enqueue(store)
        assert ids(claim(store, 3)) == [first.id, other.id, plain.id]

    @pytest.mark.parametrize("outcome", [Completed(), DeadLettered("hopeless"), Cancelled("not needed")], ids=lambda one: one.name)
    def test_the_next_goes_on_when_one_has_ended(self, store: Store, outcome: Outcome) -> None:
        """In the same turn."""
        first, second, third = line(store, 3)
        taken = claim_one(store)
        assert taken.id == first.id
        turn = store.turn([Settlement(claim=taken, outcome=outcome)], demand(10))
        assert ids(turn.claims) == [second.id]
        assert read(store, third).blocked_by == "serial"

    @pytest.mark.parametrize("outcome", [Retried(SOON, "boom"), Snoozed(SOON), Released()], ids=lambda one: one.name)
    def test_one_that_has_not_ended_keeps_its_place(self, store: Store, clock: FakeClock, outcome: Outcome) -> None:
        """Through retries, snoozes and releases until the end, also while it is not due."""
        first, second = line(store, 2)
        (taken,) = claim(store, 10)
        turn = store.turn([Settlement(claim=taken, outcome=outcome)], demand(10))
        clock.advance(SOON)
        assert ids(turn.claims) + ids(claim(store, 10)) == [first.id]
        assert read(store, second).blocked_by == "serial"

    def test_the_order_is_priority_then_due_time_then_id(self, store: Store, clock: FakeClock) -> None:
        """Whatever was enqueued when, of what is due."""
        last = enqueue(store, serial_key="k", priority=-1)
        later = enqueue(store, serial_key="k", delay=timedelta(seconds=5))
        first, second = enqueue(store, serial_key="k", priority=1), enqueue(store, serial_key="k")
        clock.advance(5)
        order = []
        for _ in range(4):
            taken = claim_one(store)
            order.append(taken.id)
            settle(store, taken)
        assert order == [first.id, second.id, later.id, last.id]

    def test_what_is_not_due_yet_holds_nobody_back(self, store: Store) -> None:
        """Also if it has a higher priority."""
        enqueue(store, serial_key="k", priority=100, delay=SOON)
        due = enqueue(store, serial_key="k")
        assert claim_one(store).id == due.id

    def test_a_key_is_one_line_over_all_queues(self, store: Store) -> None:
        """A worker of one queue does not overtake what waits in another."""
        first = enqueue(store, serial_key="k", queue="other")
        second = enqueue(store, serial_key="k", queue="mail")
        assert claim(store, 10, queues=("mail",)) == ()
        settle(store, claim_one(store, queues=("other",)))
        assert read(store, first).status is Status.COMPLETED
        assert claim_one(store, queues=("mail",)).id == second.id

    def test_a_lost_lease_keeps_the_place(self, store: Store, clock: FakeClock) -> None:
        """The next does not run beside a job whose worker may only be slow."""
        first, second = line(store, 2)
        claim(store, 10)
        clock.advance(PAST_LEASE)
        store.sweep()
        assert ids(claim(store, 10, owner=OTHER)) == [first.id]
        assert read(store, second).blocked_by == "serial"

    def test_a_recovered_process_keeps_the_place(self, store: Store) -> None:
        """What had not started is given back, and comes first again."""
        first, _ = line(store, 2)
        claim(store, 10)
        store.recover(demand().lease_owner, [])
        assert ids(claim(store, 10, owner=OTHER)) == [first.id]

    @pytest.mark.parametrize("how", ["cancel", "delete", "expire"])
    def test_the_next_goes_on_when_the_first_goes_away(self, store: Store, clock: FakeClock, how: str) -> None:
        """Whoever takes it out of the line."""
        first = enqueue(store, serial_key="k", expires=SOON)
        second = enqueue(store, serial_key="k")
        settle(store, claim_one(store), Retried(timedelta(hours=1), "boom"))
        assert claim(store, 10) == ()
        if how == "expire":
            clock.advance(SOON)
            assert [job.id for job in store.sweep().expired] == [first.id]
        else:
            getattr(store, how)(first.id)
        assert ids(claim(store, 10)) == [second.id]

    @pytest.mark.parametrize("priority", [0, -1])
    def test_the_next_goes_on_in_the_turn_in_which_the_first_expires(self, store: Store, clock: FakeClock, priority: int) -> None:
        """Whichever of them the claim comes to first."""
        enqueue(store, serial_key="k", expires=SOON)
        second = enqueue(store, serial_key="k", priority=priority)
        (taken,) = claim(store, 10)
        settle(store, taken, Retried(timedelta(0), "boom"))
        clock.advance(SOON)
        turn = store.turn(demand=demand(10))
        assert (len(turn.expired), ids(turn.claims)) == (1, [second.id])

    def test_it_goes_on_though_nobody_has_told_of_the_end(self, store: Store, clock: FakeClock) -> None:
        """A cancellation in a caller's transaction tells nobody; the next sweep sees it."""
        first, second = line(store, 2)
        settle(store, claim_one(store), Retried(timedelta(hours=1), "boom"))
        claim(store, 10)
        with store.transaction() as connection:
            store.within(connection).cancel(first.id)
        store.sweep()
        assert ids(claim(store, 10)) == [second.id]

    def test_a_dead_letter_stops_the_line_if_its_jobs_say_so(self, store: Store) -> None:
        """Until it is retried: then it comes first."""
        first, second = line(store, 2)
        settle(store, claim_one(store, constraints=STOPS), DeadLettered("hopeless"))
        assert claim(store, 10, constraints=STOPS) == ()
        assert read(store, second).blocked_by == "serial"
        store.retry(first.id)
        taken = claim_one(store, constraints=STOPS)
        assert taken.id == first.id
        turn = store.turn([Settlement(claim=taken, outcome=Completed())], demand(10, constraints=STOPS))
        assert ids(turn.claims) == [second.id]

    def test_a_dead_letter_that_is_deleted_stops_nobody(self, store: Store) -> None:
        """It was looked at and found to be of no use."""
        first, second = line(store, 2)
        settle(store, claim_one(store, constraints=STOPS), DeadLettered("hopeless"))
        assert claim(store, 10, constraints=STOPS) == ()
        store.delete(first.id)
        assert ids(claim(store, 10, constraints=STOPS)) == [second.id]

    @pytest.mark.parametrize("order", [(0, 0), (0, 50), (50, 0)], ids=["later", "of higher priority", "of lower priority"])
    def test_one_that_a_person_retries_goes_on_and_its_line_with_it(self, store: Store, clock: FakeClock, order: tuple[int, int]) -> None:
        """It was begun, so it comes before all that were not, and asked too early it must not be forgotten."""
        of_first, of_others = order
        (first,) = line(store, 1, priority=of_first)
        settle(store, claim_one(store), DeadLettered("hopeless"))
        second, third = line(store, 2, priority=of_others)
        clock.advance(1)
        running = claim_one(store)
        assert running.id == second.id
        store.retry(first.id)
        assert claim(store, 10) == ()
        assert read(store, first).blocked_by == "serial"
        turn = store.turn([Settlement(claim=running, outcome=Completed())], demand(10))
        assert ids(turn.claims) == [first.id]
        turn = store.turn([Settlement(claim=turn.claims[0], outcome=Completed())], demand(10))
        assert ids(turn.claims) == [third.id]

    def test_one_that_was_begun_and_that_nobody_told_goes_on_with_the_sweep(self, store: Store, clock: FakeClock) -> None:
        """It waits in the line itself, so it keeps nobody waiting."""
        (first,) = line(store, 1)
        settle(store, claim_one(store), DeadLettered("hopeless"))
        second, _ = line(store, 2)
        running = claim_one(store)
        store.retry(first.id)
        assert claim(store, 10) == ()
        with store.transaction() as connection:
            store.within(connection).settle(Settlement(claim=running, outcome=Completed()))
        assert running.id == second.id
        store.sweep()
        assert ids(claim(store, 10)) == [first.id]

    def test_a_retry_behind_another_dead_letter_goes_on_when_that_is_gone(self, store: Store) -> None:
        """Where a dead letter stops the line."""
        dead = line(store, 2)
        for _ in dead:
            settle(store, claim_one(store), DeadLettered("hopeless"))
        (after,) = line(store, 1)
        assert claim(store, 10, constraints=STOPS) == ()
        store.retry(dead[0].id)
        assert claim(store, 10, constraints=STOPS) == ()
        store.delete(dead[1].id)
        turn = store.turn(demand=demand(10, constraints=STOPS))
        assert ids(turn.claims) == [dead[0].id]
        turn = store.turn([Settlement(claim=turn.claims[0], outcome=Completed())], demand(10, constraints=STOPS))
        assert ids(turn.claims) == [after.id]

    def test_a_long_line_is_moved_aside_in_portions_and_hides_nobody(self, store: Store) -> None:
        """More of it than one turn moves stand before a job of another key."""
        jobs = [enqueue(store, serial_key="k", priority=1)]
        count = BLOCKED_PER_TURN + 20
        store.enqueue([make_new_job("work", serial_key="k", priority=1) for _ in range(count)])
        other = enqueue(store, serial_key="other")
        found: list[str] = []
        for _ in range(10):
            found += ids(claim(store, 2))
            if len(found) == 2:
                break
        assert found == [jobs[0].id, other.id]

    def test_a_worker_that_knows_nothing_of_the_rules_keeps_the_order(self, store: Store) -> None:
        """Which jobs share a key stands with them."""
        first, second = line(store, 2)
        (taken,) = claim(store, 10)
        assert taken.id == first.id
        assert ids(store.turn([Settlement(claim=taken, outcome=Completed())], demand(10)).claims) == [second.id]

    def test_each_of_many_keys_has_one_that_runs(self, store: Store) -> None:
        """And one end lets one go on."""
        for _ in range(3):
            for key in "abcde":
                enqueue(store, serial_key=key)
        taken = claim(store, 100)
        assert sorted(one.job.serial_key or "" for one in taken) == list("abcde")
        turn = store.turn([Settlement(claim=one, outcome=Completed()) for one in taken[:2]], demand(100))
        assert {one.job.serial_key for one in turn.claims} == {one.job.serial_key for one in taken[:2]}
        assert claim(store, 100) == ()


class TestWhoIsAhead:
    """Whom a job waits for, for the person who asks."""

    def test_one_that_runs_then_the_first_that_is_due(self, store: Store) -> None:
        """Each in turn, and nobody is ahead of the first."""
        first, second, third = line(store, 3)
        line(store, 1, "other")
        assert store.ahead_of(first.id) is None
        assert store.ahead_of(third.id) == read(store, first)
        taken = claim_one(store)
        assert store.ahead_of(third.id) == read(store, first)
        settle(store, taken, Completed())
        assert store.ahead_of(third.id) == read(store, second)
        assert store.ahead_of(second.id) is None

    def test_one_that_was_begun_and_has_not_ended(self, store: Store, clock: FakeClock) -> None:
        """Before all that have not, whatever their priority; one that is not due yet holds up nobody unless it was begun."""
        first, second = line(store, 2)
        settle(store, claim_one(store), Retried(SOON, "boom"))
        urgent = enqueue(store, serial_key="k", priority=9)
        enqueue(store, serial_key="k", priority=50, delay=timedelta(hours=1))
        assert store.ahead_of(urgent.id) == read(store, first)
        assert store.ahead_of(second.id) == read(store, first)
        assert store.ahead_of(first.id) is None

    def test_a_dead_letter_only_where_nobody_else_is(self, store: Store) -> None:
        """It holds up only those whose definition says so, which a store does not know."""
        first, second, third = line(store, 3)
        settle(store, claim_one(store), DeadLettered("hopeless"))
        assert store.ahead_of(third.id) == read(store, second)
        assert store.ahead_of(second.id) == read(store, first)

    def test_a_job_without_a_serial_key_has_nobody_ahead(self, store: Store) -> None:
        """Nor one that is not there."""
        plain = enqueue(store)
        enqueue(store)
        assert store.ahead_of(plain.id) is None
        assert store.ahead_of("01JE0000000000000000000000") is None
        assert store.ahead_of("\0") is None
