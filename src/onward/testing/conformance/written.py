"""What each verb writes, field by field: the whole row is compared, so that stores cannot differ in what no other test looks at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.jobs import NewJob
from onward.outcome import Outcome, Released, Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.asked import MOMENT, PLAIN, ended, name_of
from onward.testing.conformance.steps import LEASE, NO_DELAY, OTHER, OWNER, SOON, bring_to, claim, claim_one, demand, enqueue, read, settle
from onward.turn import Claim, Extension

HOUR = timedelta(hours=1)


def blocked(store: Store, **fields: Any) -> NewJob:
    """Enqueue a job of a type that the next worker does not know, and let that worker come by."""
    asked = enqueue(store, "strange", **fields)
    claim(store)
    assert read(store, asked).blocked_by == "type"
    return asked


class TestWritten:
    """The whole row is compared: what a verb does not name, it leaves alone, and what it names, it writes."""

    def test_a_claim(self, store: Store, clock: FakeClock) -> None:
        """What the last claim left behind is overwritten, nothing else is."""
        taken = bring_to(store, Status.RETRYING, isolated=True)
        before = read(store, taken)
        clock.advance(MOMENT)
        now = clock.now()
        lease: dict[str, Any] = {"lease_owner": OTHER, "lease_until": now + LEASE, "started_at": now, "updated_at": now}
        claimed = claim_one(store, owner=OTHER).job
        assert claimed == replace(before, status=Status.IN_PROGRESS, attempts=2, fence=2, **lease) == read(store, taken)

    @pytest.mark.parametrize(("outcome", "fields"), PLAIN, ids=name_of)
    def test_an_ending_that_comes_with_progress(self, store: Store, clock: FakeClock, outcome: Outcome, fields: dict[str, Any]) -> None:
        """The last word of the handler is stored beside its end."""
        before = read(store, bring_to(store, Status.IN_PROGRESS))
        clock.advance(MOMENT)
        settle(store, Claim(before, LEASE), outcome, progress='"half"')
        assert read(store, before) == ended(before, clock.now(), progress='"half"', **fields)

    def test_an_ending_that_says_nothing_of_progress_keeps_what_was_said(self, store: Store) -> None:
        """The last word stays the last."""
        taken = bring_to(store, Status.IN_PROGRESS)
        store.extend([Extension(taken, progress='"half"')])
        settle(store, taken, Retried(SOON, "boom"))
        assert read(store, taken).progress == '"half"'

    @pytest.mark.parametrize("began", [False, True])
    @pytest.mark.parametrize("progress", [None, '"half"'])
    def test_a_renewal(self, store: Store, clock: FakeClock, progress: str | None, began: bool) -> None:
        """It renews, says that the handler is alone, and keeps the last progress where there is no newer."""
        taken = bring_to(store, Status.IN_PROGRESS)
        store.extend([Extension(taken, progress='"begun"')])
        before = read(store, taken)
        clock.advance(MOMENT)
        store.extend([Extension(taken, progress=progress, began_isolated=began)])
        renewed: dict[str, Any] = {"lease_until": clock.now() + LEASE, "updated_at": clock.now(), "ran_isolated": began}
        assert read(store, taken) == replace(before, progress=progress or '"begun"', **renewed)

    @pytest.mark.parametrize("status", [Status.QUEUED, Status.RETRYING])
    def test_blocking_and_unblocking(self, store: Store, clock: FakeClock, status: Status) -> None:
        """A stranger costs nothing, and waits where it was."""
        before = read(store, bring_to(store, status))
        for blocked_by, act in (("type", lambda: claim(store, types=("mail",))), (None, lambda: store.sweep(["work"]))):
            clock.advance(MOMENT)
            act()
            assert read(store, before) == replace(before, blocked_by=blocked_by, updated_at=clock.now())

    def test_unblocking_at_a_claim_that_takes_another(self, store: Store, clock: FakeClock) -> None:
        """It waits again, for the next one."""
        before = read(store, enqueue(store))
        claim(store, types=("mail",))
        urgent = enqueue(store, "mail", priority=9)
        clock.advance(MOMENT)
        assert [taken.id for taken in claim(store, unblocks=True)] == [urgent.id]
        assert read(store, before) == replace(before, updated_at=clock.now())

    @pytest.mark.parametrize("status", [Status.QUEUED, Status.RETRYING])
    @pytest.mark.parametrize("is_swept", [False, True], ids=["at a claim", "by the sweep"])
    def test_expiry(self, store: Store, clock: FakeClock, is_swept: bool, status: Status) -> None:
        """By whomever it is found; a blocked job expires too, and is not blocked any more."""
        taken = bring_to(store, status, expires=MOMENT)
        if is_swept:
            claim(store, types=("mail",))
        before = read(store, taken)
        clock.advance(MOMENT)
        expired = store.sweep().expired if is_swept else store.turn(demand=demand()).expired
        now = clock.now()
        after = replace(before, status=Status.CANCELLED, error="expired", blocked_by=None, finished_at=now, updated_at=now)
        assert expired == (after,)
        assert read(store, taken) == after

    @pytest.mark.parametrize("is_blocked", [False, True])
    def test_cancelling_what_waits(self, store: Store, clock: FakeClock, is_blocked: bool) -> None:
        """It is over, and waits for nothing any more."""
        asked = blocked(store) if is_blocked else enqueue(store)
        before = read(store, asked)
        clock.advance(MOMENT)
        now = clock.now()
        after = replace(before, status=Status.CANCELLED, error="cancelled", blocked_by=None, finished_at=now, updated_at=now)
        assert store.cancel(asked.id) == after == read(store, asked)

    def test_cancelling_what_runs(self, store: Store, clock: FakeClock) -> None:
        """It is asked once; to ask again changes nothing. What its last try said stays."""
        enqueue(store)
        settle(store, claim_one(store), Retried(NO_DELAY, "boom"))
        before = claim_one(store).job
        clock.advance(MOMENT)
        after = replace(before, cancel_requested_at=clock.now(), updated_at=clock.now())
        assert store.cancel(before.id) == after == read(store, before)
        clock.advance(MOMENT)
        assert store.cancel(before.id) == after == read(store, before)

    def test_retrying_by_hand(self, store: Store, clock: FakeClock) -> None:
        """All of the first life is gone but its history and its fence."""
        asked = enqueue(store, max_attempts=5)
        for outcome in (Released(), Snoozed(NO_DELAY), Retried(NO_DELAY, "boom")):
            settle(store, claim_one(store), outcome, progress='"half"')
        claim_one(store)
        clock.advance(LEASE)
        store.sweep()
        last = claim_one(store)
        store.cancel(asked.id)
        settle(store, last, Retried(NO_DELAY, "boom"))
        before = read(store, asked)
        assert (before.status, before.attempts, before.releases, before.snoozes, before.lost_leases) == (Status.CANCELLED, 2, 1, 1, 1)
        clock.advance(MOMENT)
        counts = dict.fromkeys(("attempts", "releases", "snoozes", "lost_leases"), 0)
        gone = dict.fromkeys(("error", "progress", "cancel_requested_at", "finished_at"))
        after = replace(before, status=Status.QUEUED, scheduled_at=clock.now(), updated_at=clock.now(), **counts, **gone)
        assert store.retry(asked.id) == after == read(store, asked)

    @pytest.mark.parametrize("is_blocked", [False, True])
    def test_running_now(self, store: Store, clock: FakeClock, is_blocked: bool) -> None:
        """It is due, and its next worker decides anew whether it knows the type."""
        asked = blocked(store) if is_blocked else enqueue(store, delay=HOUR)
        before = read(store, asked)
        clock.advance(MOMENT)
        after = replace(before, status=Status.QUEUED, scheduled_at=clock.now(), blocked_by=None, updated_at=clock.now())
        assert store.run_now(asked.id) == after == read(store, asked)

    def test_a_lost_claim(self, store: Store, clock: FakeClock) -> None:
        """Only what the loss is about."""
        enqueue(store)
        settle(store, claim_one(store), Retried(NO_DELAY, "boom"), progress='"half"')
        before = claim_one(store).job
        clock.advance(LEASE)
        (after,) = store.sweep().requeued
        free = {"lease_owner": None, "lease_until": None}
        assert after == replace(before, status=Status.QUEUED, attempts=1, lost_leases=1, error=after.error, updated_at=clock.now(), **free)
        assert read(store, before) == after

    def test_a_recovered_claim_that_had_not_started(self, store: Store, clock: FakeClock) -> None:
        """It was given back, as by a worker that stops."""
        before = bring_to(store, Status.IN_PROGRESS).job
        clock.advance(MOMENT)
        (after,) = store.recover(OWNER, ()).requeued
        free = {"lease_owner": None, "lease_until": None}
        assert after == replace(before, status=Status.QUEUED, attempts=0, releases=1, updated_at=clock.now(), **free)

    def test_a_proof_inside_a_transaction(self, store: Store, clock: FakeClock) -> None:
        """It is a write, so that nobody else gets in between; all it writes is when."""
        before = bring_to(store, Status.IN_PROGRESS).job
        clock.advance(MOMENT)
        with store.transaction() as connection:
            store.within(connection).confirm(Claim(before, LEASE))
        assert read(store, before) == replace(before, updated_at=clock.now())
