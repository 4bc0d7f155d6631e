"""Settle: what each outcome stores, and what is committed with it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.inspection import JobFilter
from onward.jobs import Attempt, OnDuplicate
from onward.outcome import Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import (
    NO_DELAY,
    OUTCOMES,
    OWNER,
    SOON,
    claim,
    claim_one,
    demand,
    enqueue,
    is_settled,
    read,
    settle,
)
from onward.testing.factories import make_new_job
from onward.turn import Settlement

MANY = 20
"""Completions of one turn, without results and of one fence."""


class TestEnding:
    """Each outcome writes its own fields, and always gives up the lease."""

    @pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=lambda outcome: outcome.name)
    def test_every_ending_gives_up_the_lease_and_keeps_the_fence(self, store: Store, clock: FakeClock, outcome: Outcome) -> None:
        """A row that is not running must not look as if somebody held it."""
        enqueue(store)
        taken = claim_one(store)
        clock.advance(5)
        assert is_settled(settle(store, taken, outcome))
        job = read(store, taken)
        assert (job.status, job.lease_owner, job.lease_until, job.fence) == (outcome.status, None, None, taken.fence)
        assert job.updated_at == clock.now()
        assert job.finished_at == (clock.now() if outcome.status.is_final else None)

    def test_many_that_complete_in_one_turn_are_written_like_one(self, store: Store, clock: FakeClock) -> None:
        """Nearly all jobs end so, and a store may have a short way for it. What earlier tries and people left is cleared away."""
        alone = enqueue(store)
        many = [enqueue(store) for _ in range(MANY)]
        store.turn([Settlement(claim=one, outcome=Retried(NO_DELAY, "boom")) for one in claim(store, MANY + 1)])
        claims = claim(store, MANY + 1)
        clock.advance(5)
        settle(store, next(one for one in claims if one.id == alone.id), Completed())
        turn = store.turn([Settlement(claim=one, outcome=Completed()) for one in claims if one.id != alone.id])
        assert {one.claim.id for one in turn.settled} == {job.id for job in many}
        like_one = store.get(alone.id)
        assert (like_one.error, like_one.lease_owner, like_one.finished_at, like_one.updated_at) == (None, None, clock.now(), clock.now())
        for job in many:
            its_own = {"id": job.id, "created_at": store.get(job.id).created_at, "scheduled_at": store.get(job.id).scheduled_at}
            assert store.get(job.id) == replace(like_one, **its_own)

    def test_completion_stores_the_result_and_clears_the_last_error(self, store: Store) -> None:
        """A completed job that shows an error would be read as failed."""
        enqueue(store)
        settle(store, claim_one(store), Retried(NO_DELAY, "boom"))
        settle(store, claim_one(store), Completed('{"rows":3}'))
        job = store.find(JobFilter())[0]
        assert (job.status, job.result, job.error, job.attempts) == (Status.COMPLETED, '{"rows":3}', None, 2)

    def test_a_completion_may_say_that_its_result_was_not_stored(self, store: Store) -> None:
        """The work is done; only the result is missing, and somebody should know."""
        enqueue(store)
        taken = claim_one(store)
        settle(store, taken, Completed(error="result could not be stored: too large"))
        job = read(store, taken)
        assert (job.status, job.result, job.error) == (Status.COMPLETED, None, "result could not be stored: too large")

    def test_a_retry_waits_and_keeps_its_count(self, store: Store, clock: FakeClock) -> None:
        """The try is used up, and the error is there to be read meanwhile."""
        enqueue(store)
        taken = claim_one(store)
        clock.advance(5)
        settle(store, taken, Retried(SOON, "boom"))
        job = read(store, taken)
        assert (job.status, job.attempts, job.error) == (Status.RETRYING, 1, "boom")
        assert job.scheduled_at == clock.now() + SOON

    def test_a_snooze_gives_the_try_back_and_is_counted(self, store: Store, clock: FakeClock) -> None:
        """Waiting for something else is not failing, but waiting for ever is noticed by the count."""
        enqueue(store)
        taken = claim_one(store)
        settle(store, taken, Snoozed(SOON))
        job = read(store, taken)
        assert (job.status, job.attempts, job.snoozes, job.fence) == (Status.QUEUED, 0, 1, 1)
        assert job.scheduled_at == clock.now() + SOON

    def test_a_release_gives_the_try_back_and_the_job_is_due(self, store: Store) -> None:
        """A worker that stops costs the job nothing: the next worker takes it at once, under a new fence."""
        enqueue(store)
        taken = claim_one(store)
        settle(store, taken, Released())
        job = read(store, taken)
        assert (job.attempts, job.releases, job.scheduled_at) == (0, 1, taken.job.scheduled_at)
        assert (claim_one(store).job.attempts, read(store, taken).fence) == (1, 2)

    def test_a_dead_letter_keeps_its_reason(self, store: Store) -> None:
        """A person will look at it, and at nothing else."""
        enqueue(store)
        taken = claim_one(store)
        settle(store, taken, DeadLettered("ValueError: no such user"))
        assert (read(store, taken).error, read(store, taken).attempts) == ("ValueError: no such user", 1)

    def test_a_cancellation_keeps_its_reason(self, store: Store) -> None:
        """Cancelled by whom and why is the first question."""
        enqueue(store)
        taken = claim_one(store)
        settle(store, taken, Cancelled("the user left"))
        assert (read(store, taken).status, read(store, taken).error) == (Status.CANCELLED, "the user left")

    def test_the_last_progress_is_stored_with_the_end(self, store: Store) -> None:
        """What the handler reported after the last heartbeat would otherwise be lost; silence does not erase what was said."""
        enqueue(store)
        settle(store, claim_one(store), Retried(NO_DELAY, "boom"), progress='{"at":5}')
        taken = claim_one(store)
        assert taken.job.progress == '{"at":5}'
        settle(store, taken, Completed())
        assert read(store, taken).progress == '{"at":5}'

    def test_what_is_settled_frees_its_slot_in_the_same_turn(self, store: Store) -> None:
        """One commit a turn: what ends and what begins."""
        first, second = enqueue(store), enqueue(store)
        taken = claim_one(store)
        turn = store.turn([Settlement(claim=taken, outcome=Completed())], demand(1))
        assert [one.claim.id for one in turn.settled] == [first.id]
        assert [one.id for one in turn.claims] == [second.id]

    def test_many_endings_share_a_turn(self, store: Store) -> None:
        """Settlements come back in their order, each with its own outcome stored."""
        store.enqueue([make_new_job(payload=number) for number in range(len(OUTCOMES))])
        settlements = [
            Settlement(claim=taken, outcome=outcome) for taken, outcome in zip(claim(store, len(OUTCOMES)), OUTCOMES.values(), strict=True)
        ]
        turn = store.turn(settlements)
        assert list(turn.settled) == settlements
        assert [read(store, one.claim).status for one in settlements] == [one.outcome.status for one in settlements]


class TestChildren:
    """Children are enqueued in the commit that completes their parent, and in no other."""

    def test_children_of_a_completed_job_are_enqueued(self, store: Store) -> None:
        """The next step of a workflow exists if and only if this one is done."""
        enqueue(store)
        children = (make_new_job(payload=1), make_new_job("mail", delay=SOON))
        settle(store, claim_one(store), Completed(), children=children)
        assert [read(store, child).status for child in children] == [Status.QUEUED] * 2
        assert claim_one(store).id == children[0].id

    @pytest.mark.parametrize("outcome", [one for one in OUTCOMES.values() if not isinstance(one, Completed)], ids=lambda one: one.name)
    def test_no_other_ending_enqueues_children(self, store: Store, outcome: Outcome) -> None:
        """A step that did not complete leads nowhere; its next try would lead there twice."""
        enqueue(store)
        settle(store, claim_one(store), outcome, children=(make_new_job(),))
        assert store.count(JobFilter()) == 1

    def test_a_child_whose_key_is_held_is_not_doubled(self, store: Store) -> None:
        """Keys hold for children as for everybody."""
        held = enqueue(store, key="k", delay=SOON)
        enqueue(store)
        settle(store, claim_one(store), Completed(), children=(make_new_job(key="k"),))
        assert [job.id for job in store.find(JobFilter(key="k"))] == [held.id]

    @pytest.mark.parametrize("mode", ["same", "raise"])
    def test_a_refused_child_does_not_undo_the_work(self, store: Store, mode: OnDuplicate) -> None:
        """The work is done and cannot be done again for the sake of a child; the holder of the key stands for that."""
        held = enqueue(store, payload=1, key="k", delay=SOON)
        enqueue(store)
        taken, other = claim_one(store), make_new_job()
        settle(store, taken, Completed(), children=(make_new_job(payload=2, key="k", on_duplicate=mode), other))
        assert [read(store, one).status for one in (taken, held, other)] == [Status.COMPLETED, Status.QUEUED, Status.QUEUED]
        assert store.count(JobFilter(key="k")) == 1

    def test_a_child_that_cannot_be_is_left_out_and_costs_no_other_its_key(self, store: Store) -> None:
        """An id of another job, or one that two children have: the others are stored, and hold their keys for as long as they live."""
        other = enqueue(store, "mail")
        enqueue(store)
        keyed = make_new_job(key="k")
        first = make_new_job(payload=1, key="twice")
        again = make_new_job(payload=2, key="twice", id=first.id)
        settle(store, claim_one(store, types=("work",)), Completed(), children=(keyed, make_new_job(id=other.id), first, again))
        assert (read(store, keyed).status, read(store, other).type, read(store, first).payload) == (Status.QUEUED, "mail", "1")
        for child, key in ((keyed, "k"), (first, "twice")):
            assert store.enqueue([make_new_job(key=key)])[0].id == child.id
            store.cancel(child.id)
            assert store.enqueue([make_new_job(key=key)])[0].is_new

    def test_a_child_may_take_the_key_that_its_parent_frees(self, store: Store) -> None:
        """A job that enqueues its own successor under the same key must get one, not itself."""
        enqueue(store, key="k")
        child = make_new_job(key="k")
        settle(store, claim_one(store), Completed(), children=(child,))
        assert read(store, child).status is Status.QUEUED


class TestHistory:
    """An attempt that did not complete is always kept; a success where the definition asks."""

    @pytest.mark.parametrize("outcome", [one for one in OUTCOMES.values() if not isinstance(one, Completed)], ids=lambda one: one.name)
    def test_an_attempt_that_did_not_complete_is_kept(self, store: Store, clock: FakeClock, outcome: Outcome) -> None:
        """The error of a later try must not hide the one that matters."""
        enqueue(store)
        taken = claim_one(store)
        clock.advance(timedelta(seconds=3))
        settle(store, taken, outcome, processed=7, failed=2)
        (kept,) = store.history(taken.id)
        reason = getattr(outcome, "error", None) or getattr(outcome, "reason", None)
        assert kept == Attempt(
            job_id=taken.id,
            fence=1,
            attempt=1,
            lease_owner=OWNER,
            outcome=outcome.name,
            error=reason,
            processed=7,
            failed=2,
            started_at=taken.job.started_at,
            finished_at=clock.now(),
        )

    @pytest.mark.parametrize(("keeps", "rows"), [(False, 0), (True, 1)])
    def test_a_success_is_kept_where_it_was_asked_for(self, store: Store, keeps: bool, rows: int) -> None:
        """A row for each of a million successes is a cost that the application chooses."""
        enqueue(store)
        taken = claim_one(store)
        settle(store, taken, Completed(), keeps_history=keeps)
        assert [kept.outcome for kept in store.history(taken.id)] == ["completed"] * rows

    def test_attempts_are_listed_oldest_first(self, store: Store) -> None:
        """A history is read from the top; two rows share a number when a try was given back."""
        enqueue(store)
        for outcome in (Retried(NO_DELAY, "one"), Released(), Retried(NO_DELAY, "two")):
            taken = claim_one(store)
            settle(store, taken, outcome)
        kept = store.history(taken.id)
        assert [(one.fence, one.attempt, one.outcome) for one in kept] == [(1, 1, "retried"), (2, 2, "released"), (3, 2, "retried")]

    def test_a_job_without_attempts_has_no_history(self, store: Store) -> None:
        """Nothing happened, so nothing is told; the same for a job that is not there."""
        assert store.history(enqueue(store).id) == []
        assert store.history(make_new_job().id) == []
