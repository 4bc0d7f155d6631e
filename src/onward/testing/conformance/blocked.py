"""Blocked jobs: a type that no worker here knows waits for one that does, and holds nobody back."""

from __future__ import annotations

from onward.clock import FakeClock
from onward.driver import Store
from onward.status import Status
from onward.testing.conformance.steps import NO_DELAY, OTHER, claim, claim_everything, claim_one, demand, enqueue, read
from onward.testing.factories import make_new_job
from onward.turn import TYPES_BLOCKED_PER_TURN


class TestUnknownTypes:
    """A job that this worker does not know waits for one that does; nobody pays for it."""

    def test_an_unknown_type_costs_no_try_and_holds_nobody_back(self, store: Store) -> None:
        """During a deployment old workers meet new types."""
        strange = [enqueue(store, "strange", priority=100) for _ in range(5)]
        known = enqueue(store)
        assert [taken.id for taken in claim_everything(store, 1)] == [known.id]
        for asked in strange:
            job = read(store, asked)
            assert (job.status, job.blocked_by, job.attempts, job.fence) == (Status.QUEUED, "type", 0, 0)

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

    def test_blocked_jobs_are_not_due(self, store: Store) -> None:
        """A worker that was told so would never sleep."""
        enqueue(store, "strange")
        claim_everything(store)
        assert store.turn(demand=demand(1)).next_due is None

    def test_one_turn_blocks_only_so_many(self, store: Store) -> None:
        """A turn is one transaction, and all other writers wait for it."""
        crowd = TYPES_BLOCKED_PER_TURN + 5
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
