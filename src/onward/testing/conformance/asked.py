"""A person asked a running job to stop: what the end of its claim writes then, and what it writes without that, field by field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.jobs import Job
from onward.outcome import LEASE_RAN_OUT, PROCESS_DIED, STOPPED, Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import (
    LEASE,
    OTHER,
    OWNER,
    PAST_LEASE,
    SOON,
    bring_to,
    claim,
    claim_one,
    enqueue,
    is_settled,
    read,
    settle,
)
from onward.testing.factories import make_new_job
from onward.turn import Claim, Settlement, Swept

MOMENT = timedelta(seconds=5)
WHY = (LEASE_RAN_OUT.format(owner=OWNER), PROCESS_DIED.format(owner=OWNER))

# What each ending writes into a row that was claimed once, beside the fields of every ending.
PLAIN: list[tuple[Outcome, dict[str, Any]]] = [
    (Completed('{"rows":3}'), {"status": Status.COMPLETED, "result": '{"rows":3}'}),
    (Completed(error="no result"), {"status": Status.COMPLETED, "error": "no result"}),
    (Retried(SOON, "boom"), {"status": Status.RETRYING, "error": "boom", "scheduled_at": MOMENT + SOON}),
    (Retried(SOON, "boom", isolated=True), {"status": Status.RETRYING, "error": "boom", "scheduled_at": MOMENT + SOON, "isolated": True}),
    (Snoozed(SOON), {"status": Status.QUEUED, "attempts": 0, "snoozes": 1, "scheduled_at": MOMENT + SOON}),
    (Released(), {"status": Status.QUEUED, "attempts": 0, "releases": 1}),
    (Cancelled("not needed"), {"status": Status.CANCELLED, "error": "not needed"}),
    (DeadLettered("hopeless"), {"status": Status.DEAD_LETTER, "error": "hopeless"}),
]


def name_of(value: object) -> str:
    """The id of a case: the outcome, and what is special about it."""
    if isinstance(value, dict):
        return ""
    special = [name for name in ("result", "isolated") if getattr(value, name, None)]
    return "-".join([str(getattr(value, "name", value)), *special])


STANDING = (Status.COMPLETED, Status.CANCELLED)
YIELDING = [(outcome, fields) for outcome, fields in PLAIN if outcome.status not in STANDING]
FINAL = [(outcome, fields) for outcome, fields in PLAIN if outcome.status in STANDING]


def ended(before: Job, now: Any, **fields: Any) -> Job:
    """The row as it must be when a claim that was made ``MOMENT`` ago has ended now."""
    due = fields.pop("scheduled_at", None)
    fields |= {} if due is None else {"scheduled_at": now - MOMENT + due}
    is_final = fields["status"].is_final
    return replace(before, lease_owner=None, lease_until=None, updated_at=now, finished_at=now if is_final else None, **fields)


class TestEndingInFull:
    """The whole row is compared, so that stores cannot differ in a field that no other test looks at."""

    @pytest.mark.parametrize(("outcome", "fields"), PLAIN, ids=name_of)
    def test_an_ending_writes_these_fields_and_no_others(
        self, store: Store, clock: FakeClock, outcome: Outcome, fields: dict[str, Any]
    ) -> None:
        """Counters, error, due time and result are the same whichever store keeps the job."""
        before = read(store, bring_to(store, Status.IN_PROGRESS))
        clock.advance(MOMENT)
        settle(store, Claim(before, LEASE), outcome)
        assert read(store, before) == ended(before, clock.now(), **fields)

    def test_a_try_that_is_given_back_keeps_the_last_error(self, store: Store) -> None:
        """It says why the job is where it is; waiting does not change that."""
        enqueue(store)
        settle(store, claim_one(store), Retried(timedelta(0), "boom"))
        settle(store, claim_one(store), Released())
        taken = claim_one(store)
        settle(store, taken, Snoozed(timedelta(0)))
        job = read(store, taken)
        assert (job.error, job.attempts, job.releases, job.snoozes) == ("boom", 1, 1, 1)
        assert [kept.error for kept in store.history(taken.id)] == ["boom", None, None]

    def test_a_retry_that_asks_for_it_runs_without_neighbours_from_then_on(self, store: Store) -> None:
        """What had to be stopped by force may have harmed the process; the next run can harm only itself."""
        enqueue(store)
        settle(store, claim_one(store), Retried(timedelta(0), "timed out", isolated=True))
        second = claim_one(store)
        assert second.job.isolated
        settle(store, second, Retried(timedelta(0), "boom"))
        assert claim_one(store).job.isolated


class TestAskedToCancel:
    """A running job that was asked to stop never waits again."""

    @pytest.mark.parametrize(("outcome", "fields"), YIELDING, ids=name_of)
    def test_what_did_not_complete_becomes_the_cancellation(
        self, store: Store, clock: FakeClock, outcome: Outcome, fields: dict[str, Any]
    ) -> None:
        """The request may come after the handler's last look; the try counts as it stands, and the history says what was written."""
        enqueue(store, key="k")
        taken = claim_one(store)
        before = store.cancel(taken.id)
        clock.advance(MOMENT)
        for _ in range(2):
            (told,) = settle(store, taken, outcome).settled
            assert (told.claim, told.outcome) == (taken, Cancelled(STOPPED))
            assert read(store, taken) == ended(before, clock.now(), status=Status.CANCELLED, error=STOPPED)
            assert [(kept.outcome, kept.error, kept.attempt) for kept in store.history(taken.id)] == [("cancelled", STOPPED, 1)]
        assert store.retry(taken.id).cancel_requested_at is None

    @pytest.mark.parametrize(("outcome", "fields"), FINAL, ids=name_of)
    def test_what_completed_or_was_given_up_stands(self, store: Store, clock: FakeClock, outcome: Outcome, fields: dict[str, Any]) -> None:
        """What the last run has to say is worth more than that it was unwanted."""
        taken = bring_to(store, Status.IN_PROGRESS)
        before = store.cancel(taken.id)
        clock.advance(MOMENT)
        assert [told.outcome for told in settle(store, taken, outcome).settled] == [outcome]
        assert read(store, taken) == ended(before, clock.now(), **fields)

    @pytest.mark.parametrize(
        ("lose", "why"),
        [(lambda store, job_id: store.sweep(), WHY[0]), (lambda store, job_id: store.recover(OWNER, {job_id}), WHY[1])],
        ids=["sweep", "recover"],
    )
    def test_a_loss_is_counted_and_ends_the_job(
        self, store: Store, clock: FakeClock, lose: Callable[[Store, str], Swept], why: str
    ) -> None:
        """The history tells the loss, the job tells that it was cancelled; nobody runs it again."""
        enqueue(store, key="k")
        taken = claim_one(store)
        before = store.cancel(taken.id)
        clock.advance(PAST_LEASE)
        swept = lose(store, taken.id)
        now = clock.now()
        assert swept == Swept(cancelled=(read(store, taken),))
        assert read(store, taken) == ended(before, now, status=Status.CANCELLED, error=STOPPED, attempts=0, lost_leases=1)
        assert [(kept.outcome, kept.error) for kept in store.history(taken.id)] == [("lost", why)]
        assert claim(store) == ()
        enqueue(store, key="k")
        assert claim(store) != ()

    def test_a_claim_that_never_started_ends_by_the_same_rule(self, store: Store, clock: FakeClock) -> None:
        """A recovered claim is given back, and what is given back was asked to stop."""
        taken = bring_to(store, Status.IN_PROGRESS)
        before = store.cancel(taken.id)
        clock.advance(MOMENT)
        swept = store.recover(OWNER, ())
        assert swept == Swept(cancelled=(read(store, taken),))
        assert read(store, taken) == ended(before, clock.now(), status=Status.CANCELLED, error=STOPPED)
        assert [(kept.outcome, kept.error) for kept in store.history(taken.id)] == [("cancelled", STOPPED)]

    def test_a_request_behind_the_end_of_a_lease_counts_too(self, store: Store, clock: FakeClock) -> None:
        """Nobody has taken the job back yet, so it still counts as running; what was asked for is done when somebody does."""
        taken = bring_to(store, Status.IN_PROGRESS)
        clock.advance(PAST_LEASE)
        before = store.cancel(taken.id)
        assert (before.status, before.cancel_requested_at) == (Status.IN_PROGRESS, clock.now())
        store.sweep()
        assert (read(store, taken).status, claim(store)) == (Status.CANCELLED, ())
        assert not is_settled(settle(store, taken, Completed()))
        assert read(store, taken).status is Status.CANCELLED

    def test_a_worker_finds_out_which_of_its_jobs_are_to_stop(self, store: Store) -> None:
        """Asked at every poll, long before the next heartbeat; another worker's are its own affair."""
        store.enqueue([make_new_job() for _ in range(4)])
        mine, other = claim(store, 2), claim(store, 2, owner=OTHER)
        assert store.cancel_requested(OWNER) == frozenset()
        store.cancel(mine[1].id)
        store.cancel(other[0].id)
        assert store.cancel_requested(OWNER) == frozenset({mine[1].id})
        assert store.cancel_requested(OTHER) == frozenset({other[0].id})
        settle(store, mine[1])
        assert store.cancel_requested(OWNER) == frozenset()
        assert store.cancel_requested("host:9:nobody") == frozenset()


class TestTooLate:
    """The same claim, told again in other words."""

    @pytest.mark.parametrize(
        ("stored", "told"),
        [
            (DeadLettered("hopeless"), DeadLettered("another reason")),
            (Cancelled("not needed"), Cancelled("another reason")),
            (Retried(SOON, "boom"), Retried(SOON, "another error")),
            (DeadLettered("hopeless"), Completed()),
            (Released(), Snoozed(SOON)),
        ],
        ids=lambda outcome: outcome.name,
    )
    def test_what_was_not_stored_is_not_settled(self, store: Store, stored: Outcome, told: Outcome) -> None:
        """Only the ending that the row shows counts as an earlier try of the same turn."""
        taken = bring_to(store, Status.IN_PROGRESS)
        settle(store, taken, stored)
        before = read(store, taken), store.history(taken.id)
        assert not is_settled(settle(store, taken, told))
        assert is_settled(settle(store, taken, stored))
        assert (read(store, taken), store.history(taken.id)) == before

    def test_a_completion_that_is_told_again_in_other_words_holds(self, store: Store) -> None:
        """A handler's own transaction completed the job; what its worker says of the result afterwards changes nothing."""
        taken = bring_to(store, Status.IN_PROGRESS)
        settle(store, taken, Completed("1"))
        before = read(store, taken)
        assert is_settled(settle(store, taken, Completed(error="result could not be stored")))
        assert read(store, taken) == before

    def test_a_cancellation_by_the_sweep_is_not_the_handlers_own(self, store: Store, clock: FakeClock) -> None:
        """The lost claim says that it gave up for a reason of its own; that reason was not stored."""
        taken = bring_to(store, Status.IN_PROGRESS)
        store.cancel(taken.id)
        clock.advance(PAST_LEASE)
        store.sweep()
        assert not is_settled(settle(store, taken, Cancelled("not needed")))

    def test_a_claim_that_is_settled_twice_in_one_turn_ends_once(self, store: Store) -> None:
        """The first word counts, and only that is kept."""
        taken = bring_to(store, Status.IN_PROGRESS)
        turn = store.turn(
            [Settlement(claim=taken, outcome=Retried(SOON, "boom")), Settlement(claim=taken, outcome=Completed(), keeps_history=True)]
        )
        assert [one.outcome.name for one in turn.settled] == ["retried"]
        assert [one.outcome.name for one in turn.lost] == ["completed"]
        assert [kept.outcome for kept in store.history(taken.id)] == ["retried"]
        assert read(store, taken).status is Status.RETRYING
