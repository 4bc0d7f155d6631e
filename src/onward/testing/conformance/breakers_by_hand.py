"""Breakers that a person opens and closes, those that refuse new jobs, and what becomes of keys that nobody uses any more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.admission import Constraint
from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import BreakerOpen
from onward.inspection import IDLE_FOR, Retention
from onward.limit import Limit
from onward.outcome import Completed
from onward.rate import Rate
from onward.status import Status
from onward.testing.conformance.breakers import HOUR, PAUSE, behind, ended, ids, ids_of, open_it
from onward.testing.conformance.steps import PAST_LEASE, claim, claim_one, enqueue, settle
from onward.testing.factories import make_new_job
from onward.turn import Turn


class TestBreakerByHand:
    """A person opens and closes one, and it refuses who asks for that."""

    def test_a_person_opens_it(self, store: Store, clock: FakeClock) -> None:
        """Whatever it counted; and it is on record."""
        state = store.open_breaker("s3", HOUR, actor="ada")
        assert (state.status, state.retry_at) == ("open", clock.now() + HOUR)
        behind(store, 1)
        assert claim(store, 10) == ()
        (action,) = store.actions()
        assert (action.verb, action.actor, action.done) == ("open_breaker", "ada", 1)
        assert store.breakers()[0].alert_id is not None

    def test_a_person_closes_it(self, store: Store) -> None:
        """Those that wait go on at once, at its pace."""
        open_it(store)
        asked = behind(store, 3)
        claim(store, 10)
        assert store.reset_breaker("s3", actor="ada").status == "closed"
        assert ids(claim(store, 10)) == ids_of(asked[:2])
        assert store.breakers()[0].alert_id is None
        assert store.actions()[0].verb == "reset_breaker"

    def test_one_that_refuses_accepts_nothing_while_it_is_open(self, store: Store) -> None:
        """And says until when, and which alert says so."""
        asked = make_new_job(breaker="s3", refuses_open_breaker=True)
        store.enqueue([asked])
        open_it(store)
        with pytest.raises(BreakerOpen, match="'s3' is open") as refused:
            store.enqueue([make_new_job(), make_new_job(breaker="s3", refuses_open_breaker=True)])
        known = store.breakers()[0]
        assert (refused.value.key, refused.value.retry_at, refused.value.alert_id) == ("s3", known.state.retry_at, known.alert_id)
        assert store.enqueue([asked])[0].id == asked.id
        with pytest.raises(BreakerOpen):
            store.enqueue([make_new_job(breaker="s3", refuses_open_breaker=True)])

    def test_one_that_refuses_accepts_who_may_be_its_probe(self, store: Store, clock: FakeClock) -> None:
        """Where no job of its key is left, nobody else could close it."""
        asked = [make_new_job(breaker="s3", refuses_open_breaker=True) for _ in range(3)]
        store.open_breaker("s3", PAUSE)
        with pytest.raises(BreakerOpen):
            store.enqueue([asked[0]])
        clock.advance(PAUSE)
        store.enqueue([asked[0]])
        probe = claim_one(store)
        with pytest.raises(BreakerOpen):
            store.enqueue([asked[1]])
        clock.advance(PAST_LEASE)
        store.sweep()
        store.enqueue([asked[1]])
        store.turn([ended(one, Completed(), "success") for one in claim(store, 1)])
        assert store.breakers()[0].state.status == "closed"
        assert probe.id == asked[0].id
        assert store.enqueue([asked[2]])[0].is_new

    def test_an_opening_by_hand_takes_the_pace_that_code_says(self, store: Store) -> None:
        """Nobody who opens it knows that."""
        slow = {"work": Constraint(pace=Rate(1, timedelta(seconds=1)))}
        store.open_breaker("s3", HOUR)
        asked = behind(store, 3)
        assert claim(store, 10, constraints=slow) == ()
        assert store.reset_breaker("s3").pace == Rate(1, timedelta(seconds=1))
        assert ids(claim(store, 10, constraints=slow)) == ids_of(asked[:1])

    def test_a_reset_of_one_that_was_never_stored_stores_none(self, store: Store) -> None:
        """A slip of the hand is no breaker."""
        assert store.reset_breaker("s4", actor="ada").status == "closed"
        assert store.breakers() == []
        assert (store.actions()[0].verb, store.actions()[0].done) == ("reset_breaker", 0)

    def test_a_refusal_does_not_disturb_the_neighbours(self, store: Store) -> None:
        """Each request is its own."""
        open_it(store)
        fine, refused = make_new_job(), make_new_job(breaker="s3", refuses_open_breaker=True)
        answers = store.enqueue_each([[fine], [refused]])
        assert isinstance(answers[0], list)
        assert isinstance(answers[1], BreakerOpen)

    def test_a_refusal_in_a_callers_transaction_leaves_it_whole(self, store: Store) -> None:
        """Nothing of the request is stored, and what the caller did before stands."""
        open_it(store)
        fine = make_new_job()
        with store.transaction() as connection:
            store.within(connection).enqueue([fine])
            with pytest.raises(BreakerOpen):
                store.within(connection).enqueue([make_new_job(breaker="s3", refuses_open_breaker=True)])
        assert store.get(fine.id).status is Status.QUEUED

    def test_a_child_waits_instead_of_being_refused(self, store: Store) -> None:
        """The completion that brings it stands."""
        open_it(store)
        enqueue(store)
        child = make_new_job(breaker="s3", refuses_open_breaker=True)
        turn: Turn = settle(store, claim_one(store), Completed(), children=(child,))
        assert len(turn.settled) == 1
        assert claim(store, 10) == ()
        assert store.get(child.id).blocked_by == "breaker"


class TestIdleKeys:
    """Keys come and go: a connector that is not there any more leaves no row behind."""

    def test_a_closed_breaker_and_an_unused_limit_are_forgotten_after_a_day(self, store: Store, clock: FakeClock) -> None:
        """What counts failures, is open, was set by hand or is waited for stays."""
        for key in ("counting", "open", "closed"):
            store.open_breaker(key, HOUR)
        store.reset_breaker("closed")
        store.reset_breaker("counting")
        behind(store, 1, "counting")
        store.turn([ended(claim_one(store))])
        limits = {"work": Constraint(Limit(concurrency=1))}
        for key in ("unused", "waited for", "waited for", "run under"):
            enqueue(store, concurrency_key=key)
        claims = {one.job.concurrency_key: one for one in claim(store, 10, constraints=limits)}
        assert claims.keys() == {"unused", "waited for", "run under"}
        store.turn([ended(claims["unused"])])
        store.set_limit("key", "by hand", Limit(concurrency=1))
        claim(store, 10, constraints=limits)
        store.prune(Retention())
        assert len(store.breakers()) == 3
        clock.advance(IDLE_FOR)
        store.prune(Retention())
        assert {one.state.key for one in store.breakers()} == {"counting", "open"}
        assert {one.state.name for one in store.limits()} == {"by hand", "waited for", "run under"}
