"""Limits of queues: no more of their jobs run at once, or begin in a time, than is said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.limit import Limit
from onward.outcome import Completed
from onward.testing.conformance.limits import ids
from onward.testing.conformance.steps import SOON, claim, demand, enqueue
from onward.turn import Settlement


class TestLimitOfAQueue:
    """All jobs of a queue, whatever their key."""

    @pytest.mark.parametrize("queues", [(), ("mail",), ("mail", "default")], ids=["every queue", "this queue", "some queues"])
    def test_no_more_run_than_is_said_and_nobody_looks_again_and_again(self, store: Store, queues: tuple[str, ...]) -> None:
        """As if the queue were paused meanwhile."""
        store.set_limit("queue", "mail", Limit(concurrency=2))
        for _ in range(5):
            enqueue(store, queue="mail")
        taken = store.turn(demand=demand(10, queues=queues)).claims
        assert len(taken) == 2
        turn = store.turn(demand=demand(10, queues=queues))
        assert (turn.claims, turn.next_due) == ((), None)
        turn = store.turn([Settlement(claim=taken[0], outcome=Completed())], demand(10, queues=queues))
        assert len(turn.claims) == 1

    def test_the_order_over_queues_stays(self, store: Store) -> None:
        """A limit takes nobody's turn, and gives nobody one."""
        store.set_limit("queue", "mail", Limit(concurrency=2))
        store.turn(demand=demand(1))
        asked = [enqueue(store, queue=queue, priority=9 - n) for n, queue in enumerate(("mail", "default", "mail", "mail", "default"))]
        assert ids(store.turn(demand=demand(4)).claims) == [asked[0].id, asked[1].id, asked[2].id, asked[4].id]

    def test_who_is_refused_gives_its_turn_to_the_next_of_its_queue(self, store: Store) -> None:
        """The place is free still, and the next stands before what is behind it in other queues."""
        store.set_limit("queue", "mail", Limit(concurrency=1))
        store.open_breaker("s3", timedelta(hours=1))
        enqueue(store, queue="mail", breaker="s3")
        second = enqueue(store, queue="mail")
        third = enqueue(store)
        assert ids(claim(store, 1)) == [second.id]
        assert ids(claim(store, 10)) == [third.id]

    def test_other_queues_run_past_a_full_one(self, store: Store) -> None:
        """And what is due later elsewhere is told."""
        store.set_limit("queue", "mail", Limit(concurrency=1))
        for _ in range(3):
            enqueue(store, queue="mail", priority=50)
        plain = enqueue(store)
        enqueue(store, delay=SOON)
        turn = store.turn(demand=demand(10))
        assert plain.id in ids(turn.claims)
        assert (len(turn.claims), store.turn(demand=demand(10)).next_due) == (2, SOON)

    def test_a_rate_holds_over_a_queue(self, store: Store, clock: FakeClock) -> None:
        """And says when to look again."""
        store.set_limit("queue", "mail", Limit(rate="2/s", burst=1))
        for _ in range(5):
            enqueue(store, queue="mail")
        counts = []
        for _ in range(4):
            turn = store.turn(demand=demand(10))
            counts.append((len(turn.claims), turn.next_due))
            clock.advance(0.25)
        half, quarter = timedelta(seconds=0.5), timedelta(seconds=0.25)
        assert counts == [(1, half), (0, quarter), (1, half), (0, quarter)]

    def test_what_cannot_run_holds_no_place(self, store: Store) -> None:
        """Unknown types and late jobs in front are moved aside."""
        store.set_limit("queue", "mail", Limit(concurrency=1))
        enqueue(store, "strange", queue="mail", priority=5)
        enqueue(store, queue="mail", priority=4, expires=timedelta(0))
        good = enqueue(store, queue="mail")
        found: list[str] = []
        for _ in range(3):
            found += ids(store.turn(demand=demand(10)).claims)
        assert found == [good.id]

    def test_code_declares_and_a_person_overrides(self, store: Store) -> None:
        """What was set by hand stays until it is taken back."""
        store.declare_limits({"mail": Limit(concurrency=3)})
        assert [(one.state.kind, one.state.name, one.state.limit.concurrency) for one in store.limits()] == [("queue", "mail", 3)]
        store.set_limit("queue", "mail", Limit(concurrency=1), actor="ada")
        store.declare_limits({"mail": Limit(concurrency=4)})
        assert store.limits()[0].state.limit == Limit(concurrency=1)
        store.clear_limit("queue", "mail")
        store.declare_limits({"mail": Limit(concurrency=4)})
        assert store.limits()[0].state.limit == Limit(concurrency=4)

    def test_waiting_and_running_of_a_queue_are_counted(self, store: Store) -> None:
        """For people."""
        store.set_limit("queue", "mail", Limit(concurrency=1))
        for _ in range(3):
            enqueue(store, queue="mail")
        claim(store, 10)
        (known,) = store.limits()
        assert (known.running, known.waiting) == (1, 2)

    def test_single_limits_can_be_asked_for(self, store: Store) -> None:
        """There may be one for each customer."""
        for name in ("mail", "files"):
            store.set_limit("queue", name, Limit(concurrency=1))
            store.set_limit("key", name, Limit(concurrency=1))
        asked = [store.limits(["mail"]), store.limits(keys=["files", "none"]), store.limits(["mail"], ["mail"]), store.limits([], [])]
        found = [[(one.state.kind, one.state.name) for one in some] for some in asked]
        assert found == [[("queue", "mail")], [("key", "files")], [("queue", "mail"), ("key", "mail")], []]
        assert len(store.limits()) == 4

    def test_a_limit_that_is_taken_back_limits_nobody(self, store: Store) -> None:
        """From its commit on."""
        store.set_limit("queue", "mail", Limit(concurrency=1))
        for _ in range(3):
            enqueue(store, queue="mail")
        assert len(claim(store, 10)) == 1
        store.clear_limit("queue", "mail")
        assert len(claim(store, 10)) == 2
