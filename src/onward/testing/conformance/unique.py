"""Keys: one live job for each (owner, type, key) in its scope, under any concurrency."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import DuplicateJob, KeyReused
from onward.inspection import JobFilter, Retention
from onward.jobs import Accepted, NewJob, Scope
from onward.outcome import Completed, Outcome, Released, Retried, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import (
    FINAL_OUTCOMES,
    NO_DELAY,
    PAST_LEASE,
    SOON,
    at_once,
    claim,
    claim_one,
    demand,
    enqueue,
    read,
    settle,
    start_alone,
)
from onward.testing.factories import make_new_job

HOUR = timedelta(hours=1)
NOTHING_KEPT = Retention(completed=NO_DELAY, cancelled=NO_DELAY, dead_letter=NO_DELAY)


def is_free(store: Store, key: str = "k", **fields: Any) -> bool:
    """Say whether a key may be taken, by taking it."""
    return store.enqueue([make_new_job(key=key, **fields)])[0].is_new


class TestDuplicates:
    """What a duplicate gets: the holder, or an error, as it asked for."""

    def test_return_gives_the_live_job(self, store: Store) -> None:
        """Asking twice for the same work is one piece of work."""
        held = enqueue(store, payload=1, key="k")
        (same,) = store.enqueue([make_new_job(payload=1, key="k")])
        (other,) = store.enqueue([make_new_job(payload=2, key="k")])
        assert (same.id, same.is_new, same.payload_differs) == (held.id, False, False)
        assert (other.id, other.is_new, other.payload_differs) == (held.id, False, True)
        assert read(store, held).payload == "1"

    def test_same_refuses_another_payload(self, store: Store) -> None:
        """One idempotency key for two different requests is a mistake of the client."""
        held = enqueue(store, payload=1, key="k")
        assert store.enqueue([make_new_job(payload=1, key="k", on_duplicate="same")])[0].id == held.id
        with pytest.raises(KeyReused) as refused:
            store.enqueue([make_new_job(payload=2, key="k", on_duplicate="same")])
        assert refused.value.job_id == held.id

    def test_raise_refuses_every_duplicate(self, store: Store) -> None:
        """The error names the job that has the key, so that the caller can look."""
        held = enqueue(store, payload=1, key="k")
        with pytest.raises(DuplicateJob, match=held.id) as refused:
            store.enqueue([make_new_job(payload=1, key="k", on_duplicate="raise")])
        assert refused.value.job_id == held.id
        assert store.count(JobFilter()) == 1

    def test_of_several_refusals_the_first_in_the_order_asked_is_told(self, store: Store) -> None:
        """Keys are taken in an order of their own, which is nobody's business."""
        held = {key: enqueue(store, key=key) for key in ("a", "b", "c")}
        foreign = make_new_job("mail", id=held["a"].id)
        wanted = [make_new_job(key=key, on_duplicate="raise") for key in ("c", "a", "b")]
        for asked, first in (
            (wanted, held["c"]),
            (wanted[::-1], held["b"]),
            ([*wanted, foreign], held["c"]),
            ([foreign, *wanted], held["a"]),
        ):
            with pytest.raises(DuplicateJob) as refused:
                store.enqueue([make_new_job(), *asked])
            assert refused.value.job_id == first.id
        assert store.count(JobFilter()) == len(held)

    def test_a_key_belongs_to_one_owner_and_one_type(self, store: Store) -> None:
        """Two users who choose the same key must not meet; nobody's jobs are of one owner, too."""
        enqueue(store, key="k")
        assert is_free(store, owner="ada")
        assert is_free(store, owner="bob")
        assert is_free(store, type="mail")
        assert not is_free(store, owner="ada")
        assert not is_free(store)

    def test_keys_differ_by_every_character(self, store: Store) -> None:
        """No folding of case, no trimming, no normalising: the application chose the key."""
        for key in ("k", "K", "k ", "é", "e\u0301", "1", "01", "%", "_"):
            assert is_free(store, key)

    def test_repeats_within_one_request_are_one_job(self, store: Store) -> None:
        """A bulk of a thousand rows often holds the same one twice."""
        jobs = [make_new_job(payload=number, key=key) for number, key in enumerate("abacb")]
        accepted = store.enqueue(jobs)
        assert [one.is_new for one in accepted] == [True, True, False, True, False]
        assert (accepted[2].id, accepted[4].id) == (jobs[0].id, jobs[1].id)
        assert (accepted[2].payload_differs, store.count(JobFilter())) == (True, 3)

    def test_an_id_whose_first_request_went_to_the_holder_of_a_key_is_not_taken(self, store: Store) -> None:
        """What is said to be accepted must be there, also when one request asks for an id more than once."""
        held = enqueue(store, key="k")
        first = make_new_job(key="k")
        again = replace(first, key=None)
        accepted = store.enqueue([first, again, again, first])
        assert [(one.id, one.is_new) for one in accepted] == [(held.id, False), (first.id, True), (first.id, False), (first.id, False)]
        assert read(store, first).idempotency_key is None

    def test_jobs_without_a_key_are_never_duplicates(self, store: Store) -> None:
        """No key means no promise."""
        assert len({enqueue(store, payload=1).id for _ in range(3)}) == 3
        assert store.count(JobFilter()) == 3

    def test_fifty_at_once_are_one_job(self, store: Store) -> None:
        """The key is taken by the insert, so there is no moment between looking and inserting."""
        answers = at_once(50, lambda number: store.enqueue([make_new_job(payload=number, key="k")])[0])
        assert len({answer.id for answer in answers}) == 1
        assert sorted(answer.is_new for answer in answers) == [False] * 49 + [True]
        assert store.count(JobFilter()) == 1

    def test_bulks_in_opposite_orders_do_not_lock_each_other(self, store: Store) -> None:
        """Whatever order the callers chose, each gets an answer, and each key one job."""
        keys = [f"k{number}" for number in range(20)]

        def bulk(number: int) -> list[str]:
            order = keys if number % 2 else keys[::-1]
            accepted = store.enqueue([make_new_job(key=key) for key in order])
            return sorted(one.id for one in accepted)

        answers = at_once(10, bulk)
        assert all(answer == answers[0] for answer in answers)
        assert store.count(JobFilter()) == len(keys)


class TestHolder:
    """Who holds a key can be asked for, by its owner."""

    def test_the_live_job_that_holds_a_key_is_found(self, store: Store) -> None:
        """While it waits, runs and waits again; not before and not after."""
        assert store.find_active(("work",), "k", owner="") is None
        asked = enqueue(store, key="k")
        enqueue(store, key="other")
        holder = store.find_active(("other", "work"), "k", owner="")
        assert holder is not None
        assert holder.id == asked.id
        taken = claim_one(store)
        running = store.find_active(("work",), "k", owner="")
        assert running is not None
        assert running.status is Status.IN_PROGRESS
        settle(store, taken, Completed())
        assert store.find_active(("work",), "k", owner="") is None

    def test_a_finished_job_holds_its_key_and_is_not_found(self, store: Store) -> None:
        """A key for ever keeps others out; that is no job that somebody could wait for."""
        enqueue(store, key="k", scope="forever")
        settle(store, claim_one(store), Completed())
        assert store.find_active(("work",), "k", owner="") is None

    def test_owners_and_types_do_not_see_each_other(self, store: Store) -> None:
        """As everywhere: a foreign job is a missing one."""
        asked = enqueue(store, key="k", owner="ada")
        found = store.find_active(("work",), "k", owner="ada")
        assert found is not None
        assert found.id == asked.id
        for types, key, owner in (
            (("work",), "k", ""),
            (("work",), "k", "bob"),
            (("else",), "k", "ada"),
            (("work",), "K", "ada"),
            ((), "k", "ada"),
        ):
            assert store.find_active(types, key, owner=owner) is None
        assert store.find_active(("work",), "\0", owner="\ud800") is None


class TestScopeActive:
    """A key of scope active is held while its job is live, and freed by the statement that ends it."""

    @pytest.mark.parametrize(
        "outcome", [None, Retried(SOON, "boom"), Snoozed(SOON), Released()], ids=["running", "retrying", "snoozed", "released"]
    )
    def test_a_live_job_holds_its_key(self, store: Store, outcome: Outcome | None) -> None:
        """A job that waits for its next try is the same piece of work still."""
        held = enqueue(store, key="k")
        taken = claim_one(store)
        if outcome is not None:
            settle(store, taken, outcome)
        (accepted,) = store.enqueue([make_new_job(key="k")])
        assert (accepted.id, accepted.is_new) == (held.id, False)

    @pytest.mark.parametrize("outcome", FINAL_OUTCOMES, ids=lambda outcome: outcome.name)
    def test_every_outcome_that_ends_the_job_frees_its_key(self, store: Store, outcome: Outcome) -> None:
        """The same work may be asked for again once it is over, however it went."""
        enqueue(store, key="k")
        settle(store, claim_one(store), outcome)
        assert is_free(store)

    def test_every_other_end_frees_the_key_too(self, store: Store, clock: FakeClock) -> None:
        """Cancelled by a person, deleted, expired at a claim or by the sweep, dead by a lost lease."""

        def expired(job: NewJob) -> None:
            clock.advance(11)

        def dies(job: NewJob) -> None:
            start_alone(store, claim_one(store))
            clock.advance(PAST_LEASE)

        ways: dict[str, tuple[Callable[[NewJob], object], Callable[[], object], dict[str, Any]]] = {
            "cancelled": (lambda job: store.cancel(job.id), lambda: None, {}),
            "deleted": (lambda job: store.delete(job.id), lambda: None, {}),
            "expired at a claim": (expired, lambda: store.turn(demand=demand()), {"expires": SOON}),
            "expired by the sweep": (expired, store.sweep, {"expires": SOON}),
            "dead by a lost lease": (dies, store.sweep, {"max_attempts": 1, "isolated": True}),
        }
        for key, (act, then, fields) in ways.items():
            act(enqueue(store, key=key, **fields))
            then()
            assert is_free(store, key, delay=HOUR), key

    def test_a_lost_lease_keeps_the_key_while_tries_are_left(self, store: Store, clock: FakeClock) -> None:
        """The job runs again, so it is live."""
        enqueue(store, key="k")
        claim_one(store)
        clock.advance(PAST_LEASE)
        store.sweep()
        assert not is_free(store)

    def test_an_end_frees_only_its_own_key(self, store: Store) -> None:
        """A late ending must not free the key of the job that has it now."""
        first = enqueue(store, key="k")
        store.cancel(first.id)
        second = enqueue(store, key="k")
        store.delete(first.id)
        assert store.enqueue([make_new_job(key="k")])[0].id == second.id

    @pytest.mark.parametrize("end", ["complete", "cancel", "delete"])
    def test_the_end_of_a_job_frees_no_key_that_another_took_over_meanwhile(self, store: Store, clock: FakeClock, end: str) -> None:
        """Its window was over before it ended, and whoever has the key now holds it until its own end."""
        first = enqueue(store, key="k", scope=HOUR)
        clock.advance(HOUR)
        second = enqueue(store, key="k", delay=HOUR)
        if end == "complete":
            settle(store, claim_one(store))
        else:
            getattr(store, end)(first.id)
        assert store.enqueue([make_new_job(key="k")])[0].id == second.id


class TestScopeInTime:
    """A window holds from the enqueue on, for ever holds for ever; neither cares what becomes of the job."""

    @pytest.mark.parametrize("scope", [HOUR, "forever"])
    def test_the_key_outlives_the_job_and_its_row(self, store: Store, clock: FakeClock, scope: timedelta | str) -> None:
        """Pruning is housekeeping; it must not make work run twice."""
        held = enqueue(store, payload=1, key="k", scope=scope)
        settle(store, claim_one(store))
        clock.advance(60)
        assert store.prune(NOTHING_KEPT) == 1
        (accepted,) = store.enqueue([make_new_job(payload=2, key="k", scope=scope)])
        assert (accepted.id, accepted.is_new, accepted.payload_differs) == (held.id, False, True)

    @pytest.mark.parametrize("status", [Status.QUEUED, Status.COMPLETED])
    def test_a_window_ends_when_it_is_over(self, store: Store, clock: FakeClock, status: Status) -> None:
        """It counts from the enqueue, whether the job is done or still waits."""
        held = enqueue(store, key="k", scope=HOUR)
        if status is Status.COMPLETED:
            settle(store, claim_one(store))
        clock.advance(HOUR - timedelta(seconds=1))
        assert not is_free(store, scope=HOUR)
        clock.advance(2)
        (accepted,) = store.enqueue([make_new_job(key="k", scope=HOUR)])
        assert accepted.is_new
        assert accepted.id != held.id

    def test_of_many_who_ask_when_a_window_is_over_one_begins_the_next(self, store: Store, clock: FakeClock) -> None:
        """Each of them finds that the key has expired, and only one may conclude that it is free."""
        held = enqueue(store, key="k", scope=HOUR)
        settle(store, claim_one(store))
        clock.advance(HOUR)
        answers = at_once(8, lambda number: store.enqueue([make_new_job(payload=number, key="k", scope=HOUR)])[0])
        assert sorted(answer.is_new for answer in answers) == [False] * 7 + [True]
        assert len({answer.id for answer in answers}) == 1
        assert store.count(JobFilter(key="k")) == 2
        assert answers[0].id != held.id

    def test_a_key_that_is_taken_over_is_the_only_one(self, store: Store, clock: FakeClock) -> None:
        """Another type, owner or key whose window is over as well is still free."""
        others: list[dict[str, Any]] = [{"type": "mail"}, {"owner": "ada"}, {"key": "l"}]
        for fields in ({}, *others):
            assert is_free(store, scope=HOUR, **fields)
        clock.advance(2 * HOUR)
        for fields in ({}, *others):
            assert is_free(store, scope=HOUR, **fields)

    def test_forever_is_longer_than_a_life(self, store: Store, clock: FakeClock) -> None:
        """A payment must not be made twice, also not in fifty years."""
        held = enqueue(store, key="k", scope="forever")
        settle(store, claim_one(store))
        clock.advance(timedelta(days=365 * 50))
        store.prune(NOTHING_KEPT)
        assert store.enqueue([make_new_job(key="k")])[0].id == held.id

    @pytest.mark.parametrize("scope", [HOUR, "forever"])
    def test_the_same_request_again_is_not_new_though_its_row_is_gone(self, store: Store, clock: FakeClock, scope: Scope) -> None:
        """A client that asks once more after a long outage sends the very same id; the work was done."""
        held = enqueue(store, key="k", scope=scope, on_duplicate="raise")
        settle(store, claim_one(store))
        clock.advance(HOUR / 2)
        store.prune(NOTHING_KEPT)
        assert store.enqueue([held]) == [Accepted(held.id, is_new=False)]
        assert claim(store) == ()
        with pytest.raises(DuplicateJob):
            store.enqueue([replace(held, payload_hash="other")])

    def test_a_key_for_ever_outlives_a_deleted_job(self, store: Store) -> None:
        """Deleting a row says that nobody wants to look at it, not that it may happen again."""
        held = enqueue(store, key="k", scope="forever")
        store.delete(held.id)
        assert store.enqueue([make_new_job(key="k")])[0].id == held.id
