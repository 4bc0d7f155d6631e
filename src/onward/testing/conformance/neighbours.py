"""What is done to one job, key or claim is done to no other, and a claim that has ended is over for every verb."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import JobNotFound
from onward.inspection import Retention
from onward.outcome import DeadLettered, Retried
from onward.status import Status
from onward.testing.conformance.asked import MOMENT
from onward.testing.conformance.steps import NO_DELAY, OTHER, OWNER, bring_to, claim, claim_one, demand, enqueue, read, settle
from onward.testing.factories import make_new_job
from onward.turn import Extended, Extension, Settlement

HOUR = timedelta(hours=1)


class TestNeighbours:
    """What is done to one job, key or attempt is done to no other."""

    def test_a_duplicate_meets_the_holder_of_its_own_owner_and_type(self, store: Store) -> None:
        """Another's id would tell that there is such a job."""
        uses: list[dict[str, Any]] = [{"owner": owner, "type": name} for owner in ("", "ada", "bob") for name in ("work", "mail")]
        holders = [enqueue(store, key="k", **use).id for use in uses]
        assert [store.enqueue([make_new_job(key="k", **use)])[0].id for use in uses] == holders

    @pytest.mark.parametrize("end", ["complete", "cancel", "delete"])
    def test_the_end_of_a_job_frees_no_key_of_another(self, store: Store, end: str) -> None:
        """Whether it has the same key for another type or owner, or another key."""
        first = enqueue(store, key="k", priority=1)
        others = [{"key": "k", "owner": "ada"}, {"key": "k", "type": "mail"}, {"key": "other"}]
        for other in others:
            store.enqueue([make_new_job(**other)])
        if end == "complete":
            settle(store, claim_one(store))
        else:
            getattr(store, end)(first.id)
        assert [store.enqueue([make_new_job(**other)])[0].is_new for other in others] == [False, False, False]

    def test_a_claim_ends_no_expired_job_of_a_queue_that_it_does_not_serve(self, store: Store, clock: FakeClock) -> None:
        """That is for its own workers, or for the sweep."""
        here, elsewhere = (enqueue(store, queue=name, expires=MOMENT) for name in ("here", "elsewhere"))
        clock.advance(MOMENT)
        assert [job.id for job in store.turn(demand=demand(queues=("here",))).expired] == [here.id]
        assert read(store, elsewhere).status is Status.QUEUED

    def test_of_jobs_due_at_one_moment_the_first_is_taken_first(self, store: Store) -> None:
        """Also where there is room for one only."""
        ids = [make_new_job().id for _ in range(4)]
        store.enqueue([make_new_job(id=job_id) for job_id in reversed(ids)])
        assert [claim_one(store).id for _ in ids] == ids

    def test_every_queue_is_served_whatever_waits_in_it(self, store: Store) -> None:
        """New jobs here, a second try there."""
        ids = {enqueue(store, queue=name).id for name in ("b", "d")}
        for taken in claim(store, 2):
            settle(store, taken, Retried(NO_DELAY, "boom"))
        ids |= {enqueue(store, queue=name).id for name in ("a", "c", "e")}
        assert {taken.id for taken in claim(store, 5)} == ids

    @pytest.mark.parametrize("verb", ["cancel", "run_now", "delete"])
    def test_a_person_meets_only_the_job_that_they_name(self, store: Store, verb: str) -> None:
        """Also among jobs of one owner."""
        asked, other = enqueue(store, owner="ada", delay=HOUR), enqueue(store, owner="ada", delay=HOUR)
        before = read(store, other)
        getattr(store, verb)(asked.id, owner="ada")
        assert read(store, other) == before

    def test_a_retry_meets_only_the_job_that_is_named(self, store: Store) -> None:
        """The others stay dead."""
        dead = [bring_to(store, Status.DEAD_LETTER) for _ in range(2)]
        store.retry(dead[0].id)
        assert read(store, dead[1]).status is Status.DEAD_LETTER

    def test_a_retry_takes_its_key_for_as_long_as_its_own_enqueue_said(self, store: Store) -> None:
        """Whatever its neighbours asked for."""
        ids = [enqueue(store, key=key, scope=scope).id for key, scope in (("f", "forever"), ("a", "active"), ("g", "forever"))]
        for taken in claim(store, 3):
            settle(store, taken, DeadLettered("hopeless"))
        for job_id in ids:
            store.retry(job_id)
        for taken in claim(store, 3):
            settle(store, taken)
        assert [store.enqueue([make_new_job(key=key)])[0].is_new for key in "fag"] == [False, True, False]

    def test_the_history_of_a_job_goes_with_it_and_that_of_others_stays(self, store: Store, clock: FakeClock) -> None:
        """By a delete, and by a prune."""
        deleted, pruned, kept = (bring_to(store, status) for status in (Status.CANCELLED, Status.DEAD_LETTER, Status.RETRYING))
        store.delete(deleted.id)
        store.prune(Retention(completed=None, cancelled=None, dead_letter=NO_DELAY))
        assert [len(store.history(one.id)) for one in (kept, deleted, pruned)] == [1, 0, 0]
        with pytest.raises(JobNotFound):
            store.get(pruned.id)

    def test_a_renewal_meets_only_the_claims_that_it_names(self, store: Store, clock: FakeClock) -> None:
        """A neighbour's lease runs on."""
        one, other = bring_to(store, Status.IN_PROGRESS), bring_to(store, Status.IN_PROGRESS)
        clock.advance(MOMENT)
        store.extend([Extension(one), Extension(replace(other, job=replace(other.job, fence=9)))])
        assert read(store, other) == other.job

    def test_what_is_held_and_what_is_to_stop_is_asked_by_owner(self, store: Store) -> None:
        """In the order of the ids; another process's jobs are its own affair."""
        mine = [bring_to(store, Status.IN_PROGRESS) for _ in range(3)]
        enqueue(store)
        others = claim_one(store, owner=OTHER)
        for taken in (mine[1], others):
            store.cancel(taken.id)
        assert [job.id for job in store.held(OWNER)] == [taken.id for taken in mine]
        assert store.cancel_requested(OWNER) == {mine[1].id}


class TestEnded:
    """A claim that has ended is over for every verb."""

    @pytest.mark.parametrize("began", [False, True])
    @pytest.mark.parametrize("status", [status for status in Status if status is not Status.IN_PROGRESS])
    def test_it_cannot_be_renewed(self, store: Store, status: Status, began: bool) -> None:
        """Its fence is the newest still, and its row must stay as it is."""
        taken = bring_to(store, status)
        before = read(store, taken)
        assert store.extend([Extension(taken, progress='"late"', began_isolated=began)]).lost == {taken.id}
        assert read(store, taken) == before

    def test_a_handler_that_starts_alone_hears_that_it_is_to_stop(self, store: Store) -> None:
        """Somebody may have asked between the claim and the start."""
        taken = bring_to(store, Status.IN_PROGRESS)
        store.cancel(taken.id)
        extended = store.extend([Extension(taken, began_isolated=True)])
        assert extended == Extended(cancel_requested=frozenset({taken.id}))

    def test_a_turn_that_also_claims_says_what_was_lost(self, store: Store) -> None:
        """The worker goes on with the next job, and must not count the last one as done."""
        taken = bring_to(store, Status.COMPLETED)
        asked = enqueue(store)
        late = Settlement(claim=taken, outcome=DeadLettered("late"))
        turn = store.turn([late], demand())
        assert (turn.settled, turn.lost, [claimed.id for claimed in turn.claims]) == ((), (late,), [asked.id])
