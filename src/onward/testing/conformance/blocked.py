"""Blocked jobs: a type that no worker here knows waits for one that does, and holds nobody back."""

from __future__ import annotations

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.status import Status
from onward.testing.conformance.steps import NO_DELAY, OTHER, SOON, claim, claim_everything, claim_one, demand, enqueue, read
from onward.testing.factories import make_new_job
from onward.turn import BLOCKED_PER_TURN


class TestUnknownTypes:
    """A job that this worker does not know waits for one that does; nobody pays for it."""

    def test_an_unknown_type_costs_no_try_and_holds_nobody_back(self, store: Store) -> None:
        """During a deployment old workers meet new types."""
        strange = [enqueue(store, "strange", priority=100) for _ in range(5)]
        known = enqueue(store)
        turn = store.turn(demand=demand())
        assert ([taken.id for taken in turn.claims], turn.blocked) == ([known.id], len(strange))
        assert store.turn(demand=demand()).blocked == 0
        for asked in strange:
            job = read(store, asked)
            assert (job.status, job.blocked_by, job.attempts, job.fence) == (Status.QUEUED, "type", 0, 0)

    def test_known_jobs_that_found_no_slot_behind_unknown_ones_still_wait(self, store: Store) -> None:
        """Only what is unknown is blocked, however far a claim had to look."""
        for _ in range(3):
            enqueue(store, "strange", priority=100)
        known = [enqueue(store) for _ in range(5)]
        assert [taken.id for taken in claim(store, 2)] == [asked.id for asked in known[:2]]
        assert [read(store, asked).blocked_by for asked in known] == [None] * 5
        assert [taken.id for taken in claim(store, 5)] == [asked.id for asked in known[2:]]

    def test_a_sweep_unblocks_only_the_types_that_it_names(self, store: Store) -> None:
        """Jobs of other types would only be blocked again, at each claim."""
        strange, odd = enqueue(store, "strange"), enqueue(store, "odd")
        store.turn(demand=demand())
        assert store.sweep(["strange", "unheard of"]).unblocked == 1
        assert [read(store, asked).blocked_by for asked in (strange, odd)] == [None, "type"]

    def test_a_blocked_job_runs_when_a_sweep_names_its_type(self, store: Store, clock: FakeClock) -> None:
        """Its true due time is kept, so it comes before what was due after it."""
        strange = enqueue(store, "strange")
        due = read(store, strange).scheduled_at
        claim(store)
        clock.advance(30)
        later = enqueue(store)
        assert store.sweep(["mail"]).unblocked == 0
        assert store.sweep(["strange"]).unblocked == 1
        assert read(store, strange).scheduled_at == due
        assert [taken.id for taken in claim(store, 2, types=("work", "strange"))] == [strange.id, later.id]

    def test_a_job_under_an_old_name_runs_once_the_alias_is_known(self, store: Store) -> None:
        """A renamed job must not strand what was enqueued under its old name; the row keeps the name it came with."""
        asked = enqueue(store, "old-name")
        claim(store, types=("new-name",))
        store.sweep(["new-name", "old-name"])
        assert claim_one(store, types=("new-name", "old-name")).job.type == "old-name"
        assert read(store, asked).attempts == 1

    def test_who_knows_a_type_is_told_and_takes_what_another_set_aside(self, store: Store) -> None:
        """Two applications share a queue: a job must not wait for a sweep because the wrong one met it first."""
        strange = [enqueue(store, "strange", priority=priority) for priority in (0, 2, 1)]
        claim(store)
        assert not store.turn(demand=demand(2)).leaves_blocked
        told = store.turn(demand=demand(2, types=("strange",)))
        assert (told.claims, told.leaves_blocked) == ((), True)
        took = store.turn(demand=demand(2, types=("strange",), unblocks=True))
        assert [taken.id for taken in took.claims] == [strange[1].id, strange[2].id]
        assert took.leaves_blocked
        assert read(store, strange[0]).blocked_by == "type"
        assert not store.turn(demand=demand(2, types=("strange",), unblocks=True)).leaves_blocked

    @pytest.mark.parametrize("queues", [(), ("default",)], ids=["every queue", "one queue"])
    def test_only_what_this_worker_can_run_comes_back(self, store: Store, clock: FakeClock, queues: tuple[str, ...]) -> None:
        """Another type would only be set aside again, in the same turn: a write for each such row, and each time."""
        strange, odd = enqueue(store, "strange"), enqueue(store, "odd")
        claim(store)
        before = read(store, odd)
        clock.advance(1)
        turn = store.turn(demand=demand(5, types=("strange",), queues=queues, unblocks=True))
        assert ([taken.id for taken in turn.claims], turn.blocked) == ([strange.id], 0)
        assert read(store, odd) == before

    def test_what_was_set_aside_keeps_its_place(self, store: Store, clock: FakeClock) -> None:
        """Also when there is as much as a worker can take without it."""
        strange = enqueue(store, "strange", priority=1)
        claim(store)
        clock.advance(1)
        ready = [enqueue(store, priority=priority) for priority in (2, 0)]
        turn = store.turn(demand=demand(2, types=("work", "strange"), unblocks=True))
        assert [taken.id for taken in turn.claims] == [ready[0].id, strange.id]
        assert (turn.leaves_blocked, turn.next_due) == (False, NO_DELAY)
        assert read(store, strange).updated_at == clock.now()

    def test_what_was_set_aside_comes_back_in_its_order(self, store: Store, clock: FakeClock) -> None:
        """As many as there are slots for: first those of the highest priority, then by their due time, then by their id."""
        wanted: list[str] = []
        for priority in (0, 1):
            first = [enqueue(store, "strange", priority=priority).id for _ in range(2)]
            clock.advance(1)
            wanted[:0] = [*sorted(first), enqueue(store, "strange", priority=priority).id]
            clock.advance(1)
        claim(store)
        taken = [store.turn(demand=demand(1, types=("strange",), unblocks=True)).claims[0].id for _ in wanted]
        assert taken == wanted

    def test_only_jobs_of_the_demanded_types_and_queues_are_unblocked(self, store: Store) -> None:
        """Else two workers would set each other's jobs aside and back for ever."""
        asked = [enqueue(store, type_, queue=queue) for type_, queue in (("strange", "mine"), ("strange", "other"), ("odd", "mine"))]
        claim(store)
        before = [read(store, one) for one in asked[1:]]
        turn = store.turn(demand=demand(3, types=("strange",), queues=("mine",), unblocks=True))
        assert ([taken.id for taken in turn.claims], turn.leaves_blocked) == ([asked[0].id], False)
        assert [read(store, one) for one in asked[1:]] == before
        assert store.turn(demand=demand(3, types=("strange",))).leaves_blocked
        assert not store.turn(demand=demand(3, types=("strange", "odd"), queues=("nobody's",))).leaves_blocked

    def test_a_job_that_was_set_aside_for_too_long_expires(self, store: Store, clock: FakeClock) -> None:
        """It is looked at like any other once it is back."""
        late, good = (enqueue(store, "strange", expires=expiry) for expiry in (SOON, None))
        claim(store)
        clock.advance(SOON.total_seconds())
        turn = store.turn(demand=demand(2, types=("strange",), unblocks=True))
        assert ([job.id for job in turn.expired], [taken.id for taken in turn.claims]) == ([late.id], [good.id])

    def test_blocked_jobs_are_not_due(self, store: Store) -> None:
        """A worker that was told so would never sleep."""
        enqueue(store, "strange")
        claim_everything(store)
        assert store.turn(demand=demand(1)).next_due is None

    def test_one_turn_blocks_only_so_many(self, store: Store) -> None:
        """A turn is one transaction, and all other writers wait for it."""
        crowd = BLOCKED_PER_TURN + 5
        store.enqueue([make_new_job("strange", priority=1) for _ in range(crowd)])
        known = enqueue(store)
        assert store.turn(demand=demand(1)).next_due == NO_DELAY
        assert [taken.id for taken in claim_everything(store)] == [known.id]
        assert store.sweep(["strange"]).unblocked == crowd

    def test_a_type_unknown_to_one_worker_is_run_by_another(self, store: Store) -> None:
        """Blocking is about this moment, not about this job."""
        enqueue(store, "strange")
        claim(store)
        store.sweep(["strange"])
        assert claim_one(store, owner=OTHER, types=("strange",)).job.lease_owner == OTHER
