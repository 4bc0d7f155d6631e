"""Breakers: failures in a row stop the jobs of a key, one probe tries, and the others go on at a pace."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from onward.breaker import BreakerPolicy, RunEnding
from onward.clock import FakeClock
from onward.driver import Store
from onward.jobs import NewJob
from onward.outcome import Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.rate import Rate
from onward.status import Status
from onward.testing.conformance.steps import OTHER, PAST_LEASE, claim, claim_one, demand, enqueue, read, settle
from onward.turn import Claim, Settlement

PAUSE = timedelta(minutes=30)
POLICY = BreakerPolicy(threshold=3, pause=PAUSE, pace=Rate(2, timedelta(seconds=1)))
HOUR = timedelta(hours=1)
FAILURE = DeadLettered("the provider is away")


def ended(taken: Claim, outcome: Outcome = FAILURE, ending: RunEnding = "failure") -> Settlement:
    """The end of a run that its breaker hears of."""
    return Settlement(claim=taken, outcome=outcome, breaker=POLICY, run_ending=ending)


def behind(store: Store, count: int, key: str = "s3", **fields: Any) -> list[NewJob]:
    """So many jobs that share a breaker."""
    return [enqueue(store, breaker=key, **fields) for _ in range(count)]


def open_it(store: Store, key: str = "s3") -> None:
    """Let as many of its jobs fail as it takes."""
    behind(store, POLICY.threshold, key, priority=100)
    store.turn([ended(one) for one in claim(store, POLICY.threshold)])
    (known,) = store.breakers([key])
    assert known.state.status == "open"


def ids(claims: Iterable[Claim]) -> list[str]:
    """Which jobs were claimed, in order."""
    return [one.id for one in claims]


def ids_of(asked: Iterable[NewJob]) -> list[str]:
    """Of these requests, in order."""
    return [one.id for one in asked]


class TestBreakerOpens:
    """After so many failures in a row, and not before."""

    def test_it_opens_at_the_threshold_once_and_says_so(self, store: Store, clock: FakeClock) -> None:
        """One alert, which names when it is tried again."""
        assert store.breakers() == []
        behind(store, 4)
        first, *others = claim(store, 4)
        store.turn([ended(first)])
        assert [(one.state.status, one.state.failures, one.alert_id) for one in store.breakers()] == [("closed", 1, None)]
        store.turn([ended(one) for one in others])
        (known,) = store.breakers()
        assert (known.state.status, known.state.failures, known.state.opened_at) == ("open", 3, clock.now())
        assert known.state.retry_at == clock.now() + PAUSE
        assert known.alert_id is not None

    def test_its_jobs_wait_and_spend_no_try_and_others_run(self, store: Store) -> None:
        """Also those that are enqueued, and committed, after it has opened."""
        open_it(store)
        waiting, other, plain = behind(store, 2), enqueue(store, breaker="b2"), enqueue(store)
        turn = store.turn(demand=demand(10))
        assert ids(turn.claims) == [other.id, plain.id]
        for asked in waiting:
            job = read(store, asked)
            assert (job.status, job.blocked_by, job.attempts, job.fence) == (Status.QUEUED, "breaker", 0, 0)
        assert store.breakers(["s3"])[0].waiting == 2

    def test_it_tells_when_to_look_again(self, store: Store) -> None:
        """An idle worker sleeps until then."""
        open_it(store)
        behind(store, 1)
        assert store.turn(demand=demand(10)).next_due == PAUSE

    def test_a_success_in_between_begins_the_count_anew(self, store: Store) -> None:
        """In a row means in a row."""
        behind(store, 6)
        taken = claim(store, 6)
        ends = [ended(one) for one in taken]
        ends[2] = ended(taken[2], Completed(), "success")
        for end in ends[:5]:
            store.turn([end])
        assert store.breakers()[0].state.failures == 2
        assert store.breakers()[0].state.status == "closed"
        store.turn(ends[5:])
        assert store.breakers()[0].state.status == "open"

    @pytest.mark.parametrize("outcome", [Released(), Snoozed(HOUR), DeadLettered("no such user")], ids=lambda one: one.name)
    def test_what_says_nothing_of_the_provider_is_not_counted(self, store: Store, outcome: Outcome) -> None:
        """Neither for it nor against it."""
        behind(store, 5)
        taken = claim(store, 5)
        store.turn([ended(one) for one in taken[:2]])
        store.turn([ended(one, outcome, "other") for one in taken[2:]])
        assert (store.breakers()[0].state.status, store.breakers()[0].state.failures) == ("closed", 2)

    def test_a_failure_that_is_stored_already_is_not_counted_again(self, store: Store) -> None:
        """A turn whose answer was lost is repeated."""
        behind(store, 2)
        taken = claim(store, 2)
        ends = [ended(one) for one in taken]
        store.turn(ends)
        store.turn(ends)
        assert store.breakers()[0].state.failures == 2

    def test_a_failure_that_is_told_twice_in_one_turn_counts_once(self, store: Store) -> None:
        """It is one run."""
        behind(store, 1)
        end = ended(claim_one(store))
        store.turn([end, end])
        assert store.breakers()[0].state.failures == 1

    def test_a_lost_lease_is_not_counted(self, store: Store, clock: FakeClock) -> None:
        """A worker that died says nothing of the provider."""
        behind(store, 3)
        claim(store, 3)
        clock.advance(PAST_LEASE)
        store.sweep()
        assert store.breakers() == []

    def test_a_failed_job_waits_for_the_breaker_when_it_is_due_again(self, store: Store, clock: FakeClock) -> None:
        """Its back-off is shorter than the pause."""
        jobs = behind(store, 3)
        store.turn([ended(one, Retried(timedelta(seconds=5), "away")) for one in claim(store, 3)])
        clock.advance(5)
        assert claim(store, 10) == ()
        assert {(read(store, one).blocked_by, read(store, one).attempts) for one in jobs} == {("breaker", 1)}


class TestBreakerTries:
    """After the pause one job runs, and what becomes of it decides."""

    def test_one_probe_runs_whoever_asks(self, store: Store, clock: FakeClock) -> None:
        """The first of those that wait."""
        open_it(store)
        first, *_ = behind(store, 3)
        assert claim(store, 10) == ()
        clock.advance(PAUSE - timedelta(seconds=1))
        assert claim(store, 10) == ()
        clock.advance(1)
        assert ids(claim(store, 10)) == [first.id]
        assert store.breakers()[0].state.status == "half_open"
        behind(store, 1)
        assert claim(store, 10, owner=OTHER) == ()

    def test_its_success_closes_it_and_the_others_go_on_at_the_pace(self, store: Store, clock: FakeClock) -> None:
        """The alert is resolved."""
        open_it(store)
        _, *others = behind(store, 6)
        claim(store, 10)
        clock.advance(PAUSE)
        turn = store.turn([ended(claim_one(store), Completed(), "success")], demand(10))
        (known,) = store.breakers()
        assert (known.state.status, known.state.failures, known.alert_id) == ("closed", 0, None)
        found = [ids(turn.claims)]
        for _ in range(2):
            clock.advance(1)
            found.append(ids(claim(store, 10)))
        assert found == [ids_of(others[:2]), ids_of(others[2:4]), ids_of(others[4:])]
        clock.advance(1)
        claim(store, 10)
        assert store.breakers()[0].state.retry_at is None

    def test_its_failure_opens_it_again(self, store: Store, clock: FakeClock) -> None:
        """For as long, and without another alert."""
        open_it(store)
        alert = store.breakers()[0].alert_id
        behind(store, 2)
        claim(store, 10)
        clock.advance(PAUSE)
        store.turn([ended(claim_one(store))])
        (known,) = store.breakers()
        assert (known.state.status, known.state.retry_at, known.alert_id) == ("open", clock.now() + PAUSE, alert)
        assert claim(store, 10) == ()
        clock.advance(PAUSE)
        assert len(claim(store, 10)) == 1

    @pytest.mark.parametrize("how", ["lost", "recovered", "released"])
    def test_a_probe_that_does_not_end_is_replaced(self, store: Store, clock: FakeClock, how: str) -> None:
        """Its worker died, or gave it back."""
        open_it(store)
        behind(store, 3)
        claim(store, 10)
        clock.advance(PAUSE)
        probe = claim_one(store)
        if how == "lost":
            clock.advance(PAST_LEASE)
            store.sweep()
        elif how == "recovered":
            store.recover(demand().lease_owner, [probe.id])
        else:
            store.turn([ended(probe, Released(), "other")])
        (next_probe,) = claim(store, 10, owner=OTHER)
        assert store.breakers()[0].state.status == "half_open"
        store.turn([ended(next_probe, Completed(), "success")])
        assert store.breakers()[0].state.status == "closed"

    def test_a_probe_that_was_dead_lettered_by_its_losses_is_replaced(self, store: Store, clock: FakeClock) -> None:
        """Nobody comes back for it, and those behind it go on."""
        open_it(store)
        behind(store, 2)
        claim(store, 10)
        clock.advance(PAUSE)
        probe = claim_one(store)
        store.cancel(probe.id)
        clock.advance(PAST_LEASE)
        assert [job.id for job in store.sweep().cancelled] == [probe.id]
        store.sweep()
        assert len(claim(store, 10)) == 1

    def test_runs_that_began_before_it_opened_change_nothing(self, store: Store) -> None:
        """A late success does not close it, a late failure does not open it for longer."""
        behind(store, 2)
        early, late = claim(store, 2)
        open_it(store)
        before = store.breakers()[0]
        store.turn([ended(early, Completed(), "success")])
        store.turn([ended(late)])
        assert store.breakers()[0] == before

    def test_a_completion_in_the_handlers_own_transaction_closes_it(self, store: Store, clock: FakeClock) -> None:
        """The turn behind it hears of the success, and finds it stored."""
        open_it(store)
        behind(store, 1)
        claim(store, 10)
        clock.advance(PAUSE)
        probe = claim_one(store)
        with store.transaction() as connection:
            store.within(connection).settle(ended(probe, Completed(), "success"))
        assert store.breakers()[0].state.status == "half_open"
        store.turn([ended(probe, Completed(), "success")])
        assert store.breakers()[0].state.status == "closed"

    def test_a_new_job_is_the_probe_where_none_waits(self, store: Store, clock: FakeClock) -> None:
        """The pause is over, and nothing was left to try it with."""
        open_it(store)
        clock.advance(PAUSE)
        assert claim(store, 10) == ()
        asked, _ = behind(store, 2)
        assert ids(claim(store, 10)) == [asked.id]

    def test_jobs_of_a_paused_queue_stand_for_nobody(self, store: Store, clock: FakeClock) -> None:
        """They could not begin, however many they are and however early they came; when the queue goes on, so do they."""
        open_it(store)
        paused = behind(store, 3, queue="mail", priority=50)
        free = behind(store, 2)
        claim(store, 10)
        store.pause("mail")
        clock.advance(PAUSE)
        probe = claim_one(store)
        assert probe.id == free[0].id
        turn = store.turn([ended(probe, Completed(), "success")], demand(10))
        assert ids(turn.claims) == [free[1].id]
        store.resume("mail")
        found: list[str] = []
        for _ in range(3):
            store.sweep()
            found += ids(claim(store, 10))
            clock.advance(1)
        assert found == ids_of(paused)

    def test_one_that_cannot_begin_leaves_the_probe_to_the_next(self, store: Store, clock: FakeClock) -> None:
        """The first thirty stand in a line whose head comes back in an hour."""
        (head,) = behind(store, 1, serial_key="line")
        settle(store, claim_one(store), Retried(HOUR, "away"))
        assert read(store, head).status is Status.RETRYING
        open_it(store)
        behind(store, 30, serial_key="line")
        (free,) = behind(store, 1)
        claim(store, 50)
        clock.advance(PAUSE)
        found = [one.id for _ in range(3) for one in claim(store, 10)]
        assert found == [free.id]
        assert store.breakers()[0].state.probe_id == free.id

    def test_code_that_names_no_breaker_any_more_closes_it_with_the_first_that_completes(self, store: Store, clock: FakeClock) -> None:
        """It says nothing of failures, and those that wait were enqueued before."""
        open_it(store)
        first, second = behind(store, 2)
        claim(store, 10)
        clock.advance(PAUSE)
        probe = claim_one(store)
        assert probe.id == first.id
        turn = store.turn([Settlement(claim=probe, outcome=Completed())], demand(10))
        assert ids(turn.claims) == [second.id]
        assert (store.breakers()[0].state.status, store.breakers()[0].alert_id) == ("closed", None)

    def test_nobody_waits_for_ever_for_a_breaker_that_is_gone(self, store: Store) -> None:
        """Jobs that wait behind one that is closed go on with the next sweep."""
        open_it(store)
        asked = behind(store, 1)
        claim(store, 10)
        store.reset_breaker("s3")
        store.sweep()
        assert ids(claim(store, 10)) == ids_of(asked)
