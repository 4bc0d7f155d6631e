"""Limits: no more jobs of a key or a queue run at once, or begin in a time, than is said."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from onward.admission import Constraint
from onward.clock import FakeClock
from onward.driver import Store
from onward.jobs import NewJob
from onward.limit import CHECK_EVERY, Limit
from onward.outcome import Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import OTHER, PAST_LEASE, SOON, claim, demand, enqueue, read
from onward.turn import Claim, Demand, Settlement

RIPE = 120
"""Keys, more than one claim looks at."""
TWO = {"work": Constraint(Limit(concurrency=2))}
FOUR_A_SECOND = {"work": Constraint(Limit(rate="4/s", burst=2))}


def keyed(store: Store, count: int, key: str = "s3", **fields: Any) -> list[NewJob]:
    """So many jobs that share a limit."""
    return [enqueue(store, concurrency_key=key, **fields) for _ in range(count)]


def ids(some: Iterable[Claim | NewJob]) -> list[str]:
    """Which jobs, in order."""
    return [one.id for one in some]


def ten(constraints: Any = TWO, **more: Any) -> Demand:
    """What a worker with ten free slots asks for that knows of the limit."""
    return demand(10, constraints=constraints, **more)


class TestConcurrencyOfAKey:
    """How many run at once."""

    def test_no_more_run_than_is_said_and_the_others_spend_no_try(self, store: Store) -> None:
        """Neither in one claim nor over several workers."""
        jobs = keyed(store, 5)
        assert ids(store.turn(demand=ten()).claims) == ids(jobs[:2])
        jobs.append(enqueue(store, concurrency_key="s3"))
        turn = store.turn(demand=ten(owner=OTHER))
        assert (turn.claims, turn.next_due) == ((), None)
        for asked in jobs[2:]:
            job = read(store, asked)
            assert (job.status, job.blocked_by, job.attempts, job.fence) == (Status.QUEUED, "limit", 0, 0)

    def test_other_keys_and_jobs_without_one_go_on(self, store: Store) -> None:
        """Past those that wait."""
        jobs = keyed(store, 4, priority=50)
        other, plain = enqueue(store, concurrency_key="b2"), enqueue(store)
        assert ids(store.turn(demand=demand(4, constraints=TWO)).claims) == [*ids(jobs[:2]), other.id, plain.id]

    @pytest.mark.parametrize(
        "outcome", [Completed(), DeadLettered("no"), Retried(SOON, "boom"), Snoozed(SOON), Released()], ids=lambda one: one.name
    )
    def test_each_end_lets_one_go_on_in_the_same_turn(self, store: Store, outcome: Outcome) -> None:
        """Only those that run hold a place, so a job that waits to be tried again keeps nobody out."""
        jobs = keyed(store, 5)
        first, _ = store.turn(demand=ten()).claims
        turn = store.turn([Settlement(claim=first, outcome=outcome)], ten())
        expected = jobs[0] if isinstance(outcome, Released) else jobs[2]
        assert ids(turn.claims) == [expected.id]

    def test_a_lost_lease_gives_its_place_back(self, store: Store, clock: FakeClock) -> None:
        """After a crash nothing has to be counted down."""
        keyed(store, 5)
        store.turn(demand=ten())
        clock.advance(PAST_LEASE)
        assert len(store.sweep().requeued) == 2
        assert len(store.turn(demand=ten(owner=OTHER)).claims) == 2

    def test_a_recovered_process_gives_its_places_back(self, store: Store) -> None:
        """Of jobs that had not started as well."""
        keyed(store, 5)
        store.turn(demand=ten())
        store.recover(demand().lease_owner, [])
        assert len(store.turn(demand=ten(owner=OTHER)).claims) == 2

    def test_a_completion_in_the_handlers_own_transaction_gives_its_place_back(self, store: Store) -> None:
        """By the turn behind it."""
        jobs = keyed(store, 3)
        first, _ = store.turn(demand=ten()).claims
        end = Settlement(claim=first, outcome=Completed())
        with store.transaction() as connection:
            store.within(connection).settle(end)
        assert ids(store.turn([end], ten()).claims) == [jobs[2].id]

    def test_the_first_by_priority_goes_on(self, store: Store) -> None:
        """Whichever came later."""
        keyed(store, 2)
        taken = store.turn(demand=ten()).claims
        low, high = enqueue(store, concurrency_key="s3"), enqueue(store, concurrency_key="s3", priority=5)
        store.turn(demand=ten())
        turn = store.turn([Settlement(claim=taken[0], outcome=Completed())], ten())
        assert ids(turn.claims) == [high.id]
        assert read(store, low).blocked_by == "limit"

    def test_code_that_knows_no_limit_is_held_to_none(self, store: Store) -> None:
        """Who claims says what holds, unless a person has set it."""
        keyed(store, 5)
        assert len(claim(store, 10)) == 5

    def test_a_limit_that_was_raised_lets_more_go_on(self, store: Store) -> None:
        """With the next end, or the next sweep."""
        keyed(store, 5)
        store.turn(demand=ten())
        more = {"work": Constraint(Limit(concurrency=4))}
        enqueue(store, concurrency_key="s3")
        assert len(store.turn(demand=ten(more)).claims) == 1
        store.sweep()
        assert len(store.turn(demand=ten(more)).claims) == 1

    def test_waiting_and_running_are_counted(self, store: Store) -> None:
        """For people."""
        keyed(store, 5)
        store.turn(demand=ten())
        (known,) = store.limits()
        assert (known.state.kind, known.state.name, known.state.limit) == ("key", "s3", Limit(concurrency=2))
        assert (known.running, known.waiting, known.state.is_by_hand) == (2, 3, False)

    def test_a_person_sets_another_and_takes_it_back(self, store: Store) -> None:
        """What was set by hand counts, and is on record."""
        keyed(store, 6)
        store.set_limit("key", "s3", Limit(concurrency=3), actor="ada")
        assert len(store.turn(demand=ten()).claims) == 3
        assert store.clear_limit("key", "s3", actor="ada")
        assert not store.clear_limit("key", "s3")
        assert [action.verb for action in store.actions()] == ["clear_limit", "clear_limit", "set_limit"]

    @pytest.mark.parametrize("how", ["cancel", "delete", "cancel many", "delete many", "expire", "expire in a claim"])
    def test_a_place_is_not_lost_with_who_was_let_go_on_for_it(self, store: Store, clock: FakeClock, how: str) -> None:
        """It went away before it was claimed, and nobody else was told of the place."""
        one = {"work": Constraint(Limit(concurrency=1))}
        first, second = keyed(store, 2, expires=SOON)
        third = enqueue(store, concurrency_key="s3")
        (taken,) = store.turn(demand=ten(one)).claims
        store.turn([Settlement(claim=taken, outcome=Completed())])
        assert (taken.id, read(store, second).blocked_by, read(store, third).blocked_by) == (first.id, None, "limit")
        if how.startswith("expire"):
            clock.advance(SOON)
            assert how != "expire" or [job.id for job in store.sweep().expired] == [second.id]
        elif how.endswith("many"):
            assert store.act(how.partition(" ")[0], [second.id]).done == (second.id,)  # type: ignore[arg-type]
        else:
            getattr(store, how)(second.id)
        assert ids(store.turn(demand=ten(one)).claims) == [third.id]

    def test_as_many_are_let_go_on_as_have_a_place_however_many_ended_at_once(self, store: Store) -> None:
        """One turn frees both places, and neither is given away twice."""
        jobs = keyed(store, 6)
        taken = store.turn(demand=ten()).claims
        store.turn([Settlement(claim=one, outcome=Completed()) for one in taken])
        assert [read(store, one).blocked_by for one in jobs[2:]] == [None, None, "limit", "limit"]

    def test_one_that_cannot_begin_leaves_its_place_to_the_next(self, store: Store) -> None:
        """The first thirty stand in a line whose head comes back in an hour."""
        one = {"work": Constraint(Limit(concurrency=1))}
        head, running = enqueue(store, serial_key="line"), enqueue(store, concurrency_key="s3")
        taken = {each.id: each for each in claim(store, 10, constraints=one)}
        keyed(store, 30, serial_key="line")
        (free,) = keyed(store, 1)
        assert claim(store, 50, constraints=one) == ()
        store.turn([Settlement(claim=taken[head.id], outcome=Retried(timedelta(hours=1), "away"))])
        store.turn([Settlement(claim=taken[running.id], outcome=Completed())])
        found = [each.id for _ in range(3) for each in claim(store, 10, constraints=one)]
        assert found == [free.id]

    def test_who_waits_goes_on_though_its_limit_was_taken_away(self, store: Store) -> None:
        """At once."""
        jobs = keyed(store, 3)
        store.set_limit("key", "s3", Limit(concurrency=1))
        claim(store, 10)
        store.clear_limit("key", "s3")
        assert ids(claim(store, 10)) == ids(jobs[1:])


class TestRateOfAKey:
    """How often one begins."""

    def test_the_burst_begins_at_once_and_the_others_at_the_rate(self, store: Store, clock: FakeClock) -> None:
        """Whether those before have ended or not."""
        keyed(store, 20)
        counts = [len(store.turn(demand=ten(FOUR_A_SECOND)).claims)]
        for _ in range(8):
            clock.advance(0.25)
            counts.append(len(store.turn(demand=ten(FOUR_A_SECOND)).claims))
        assert counts == [2] + [1] * 8

    def test_it_tells_when_to_look_again(self, store: Store) -> None:
        """An idle worker sleeps until then, and no longer."""
        keyed(store, 3)
        assert store.turn(demand=ten(FOUR_A_SECOND)).next_due == timedelta(seconds=0.25)

    def test_nobody_looks_again_for_the_rate_while_all_places_are_taken(self, store: Store, clock: FakeClock) -> None:
        """The end of a run does, and by then the rate may be what holds the next one up."""
        both = {"work": Constraint(Limit(concurrency=1, rate="1/10s", burst=2))}
        jobs = keyed(store, 4)
        (first,) = store.turn(demand=ten(both)).claims
        clock.advance(CHECK_EVERY)
        assert store.turn(demand=ten(both)).next_due is None
        turn = store.turn([Settlement(claim=first, outcome=Completed())], ten(both))
        assert (ids(turn.claims), turn.next_due) == ([jobs[1].id], None)
        turn = store.turn([Settlement(claim=turn.claims[0], outcome=Completed())], ten(both))
        assert (turn.claims, turn.next_due) == ((), timedelta(seconds=10) - CHECK_EVERY)
        clock.advance(timedelta(seconds=10) - CHECK_EVERY)
        assert ids(store.turn(demand=ten(both)).claims) == [jobs[2].id]

    def test_a_quick_rate_is_handed_on_in_portions(self, store: Store, clock: FakeClock) -> None:
        """Nobody looks a thousand times a second."""
        quick = {"work": Constraint(Limit(rate="100/s", burst=10))}
        keyed(store, 25)
        turn = store.turn(demand=demand(100, constraints=quick))
        assert (len(turn.claims), turn.next_due) == (10, CHECK_EVERY)
        clock.advance(CHECK_EVERY)
        assert len(store.turn(demand=demand(100, constraints=quick)).claims) == 5

    def test_every_try_counts(self, store: Store) -> None:
        """What a provider counts are calls."""
        keyed(store, 3)
        first, _ = store.turn(demand=ten(FOUR_A_SECOND)).claims
        turn = store.turn([Settlement(claim=first, outcome=Retried(timedelta(0), "boom"))], ten(FOUR_A_SECOND))
        assert turn.claims == ()

    def test_a_rate_that_code_has_changed_holds_for_those_that_wait(self, store: Store, clock: FakeClock) -> None:
        """From the next sweep of a worker with the new code on, whenever they were to be looked at."""
        jobs = keyed(store, 5)
        hourly = {"work": Constraint(Limit(rate="1/h", burst=1))}
        assert ids(store.turn(demand=ten(hourly)).claims) == [jobs[0].id]
        store.sweep(("work",), constraints=hourly)
        assert store.turn(demand=ten(hourly)).claims == ()
        quick = {"work": Constraint(Limit(rate="100/s", burst=3))}
        store.sweep(("other",), constraints=quick)
        assert store.turn(demand=ten(quick)).claims == (), "code that does not know the type says nothing of it"
        store.sweep(("work",), constraints=quick)
        clock.advance(1)
        assert ids(store.turn(demand=ten(quick)).claims) == ids(jobs[1:4])
        clock.advance(1)
        assert ids(store.turn(demand=ten(quick)).claims) == [jobs[4].id]
        assert store.limits()[0].state.limit == quick["work"].limit

    def test_a_limit_that_code_says_no_more_holds_nobody(self, store: Store) -> None:
        """What a person has set does."""
        jobs = keyed(store, 4)
        hourly = {"work": Constraint(Limit(rate="1/h", burst=1))}
        assert len(store.turn(demand=ten(hourly)).claims) == 1
        store.set_limit("key", "s3", Limit(rate="1/h", burst=1))
        store.sweep(("work",))
        assert store.turn(demand=ten({})).claims == ()
        store.clear_limit("key", "s3")
        assert len(store.turn(demand=ten(hourly)).claims) == 1
        store.sweep(("work",))
        assert ids(store.turn(demand=ten({})).claims) == ids(jobs[2:])

    def test_unused_tokens_are_kept_up_to_the_burst(self, store: Store, clock: FakeClock) -> None:
        """A pause of an hour is worth no more."""
        keyed(store, 20)
        store.turn(demand=ten(FOUR_A_SECOND))
        clock.advance(3600)
        assert len(store.turn(demand=ten(FOUR_A_SECOND)).claims) == 2

    def test_a_small_burst_holds_a_quick_rate_back_no_more_than_it_says(self, store: Store, clock: FakeClock) -> None:
        """Ten begin in a tenth of a second, one by one."""
        keyed(store, 12)
        quick = {"work": Constraint(Limit(rate="100/s", burst=1))}
        began = len(store.turn(demand=ten(quick)).claims)
        for _ in range(10):
            clock.advance(0.01)
            began += len(store.turn(demand=ten(quick)).claims)
        assert began == 11

    def test_of_very_many_rates_the_next_moment_is_told(self, store: Store, clock: FakeClock) -> None:
        """Nobody serves the queue of the others, so they stay ripe."""
        slow = {"work": Constraint(Limit(rate="1/m", burst=1))}
        for number in range(RIPE):
            keyed(store, 2, f"k{number}", queue="other")
        claim(store, 2 * RIPE, constraints=slow, queues=("other",))
        keyed(store, 2, queue="mine")
        assert len(claim(store, 10, constraints=slow, queues=("mine",))) == 1
        clock.advance(60)
        assert sum(len(claim(store, 10, constraints=slow, queues=("mine",))) for _ in range(3)) == 1

    def test_a_clock_that_goes_back_stops_nobody_for_longer_than_the_burst(self, store: Store, clock: FakeClock) -> None:
        """What was spent tomorrow is forgotten."""
        keyed(store, 20)
        store.turn(demand=ten(FOUR_A_SECOND))
        clock.advance(-86400)
        enqueue(store, concurrency_key="s3")
        store.turn(demand=ten(FOUR_A_SECOND))
        clock.advance(1)
        store.sweep()
        enqueue(store, concurrency_key="s3")
        assert len(store.turn(demand=ten(FOUR_A_SECOND)).claims) >= 1
