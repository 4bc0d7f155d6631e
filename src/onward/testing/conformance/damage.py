"""Bad rows, lost answers, closed stores: what goes wrong stops only itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from threading import Barrier, Event, Thread
from typing import Any, TypeAlias, get_args

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.errors import ValueRefused
from onward.inspection import QUESTIONS, BulkVerb, JobFilter
from onward.outcome import Completed, DeadLettered, Outcome
from onward.status import Status
from onward.testing.conformance.steps import (
    NO_DELAY,
    OUTCOMES,
    OWNER,
    PAST_LEASE,
    SOON,
    bring_to,
    claim,
    claim_everything,
    demand,
    enqueue,
    is_settled,
    is_woken,
    read,
    settle,
    start_alone,
)
from onward.testing.factories import make_new_job
from onward.turn import Settlement

Raw: TypeAlias = Callable[[str, str, Any], None]
"""``raw(job_id, column, value)`` writes into a stored row behind the store's back."""
INSTANTS = (
    *("scheduled_at", "expires_at", "lease_until", "cancel_requested_at"),
    *("created_at", "updated_at", "started_at", "finished_at"),
)
ODD_INSTANTS = (
    *("infinity", "-infinity", "12026-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"),
    *("2025-12-31T00:00:00Z", "2025-12-31 00:00:00+02:00", "2027-12-31T00:00:00Z"),
    *("soon", "5", "", b"\xff"),
)
"""What no program writes, what none can read, and what another program writes in other words."""
LIVE = tuple(status for status in Status if status.is_live)


@pytest.fixture
def damage(request: pytest.FixtureRequest) -> Raw:
    """The backend's own ``raw`` fixture, where it has one."""
    try:
        raw: Raw = request.getfixturevalue("raw")
    except pytest.FixtureLookupError:
        pytest.skip("there is no fixture raw(job_id, column, value) to damage rows with")
    return raw


class TestBadRows:
    """A row that somebody wrote by hand."""

    @pytest.mark.parametrize("column", ["payload", "metadata", "progress"])
    def test_text_that_is_not_json_is_handed_on_as_it_is(self, store: Store, damage: Raw, column: str) -> None:
        """The store does not judge it: who decodes it dead-letters the job, with the reason, and its neighbours run."""
        bad, good = enqueue(store), enqueue(store)
        damage(bad.id, column, "{not json")
        claims = {taken.id: taken for taken in claim_everything(store)}
        assert set(claims) == {bad.id, good.id}
        assert getattr(claims[bad.id].job, column) == "{not json"
        turn = store.turn(
            [
                Settlement(claim=claims[bad.id], outcome=DeadLettered("the payload cannot be read")),
                Settlement(claim=claims[good.id], outcome=Completed()),
            ]
        )
        assert len(turn.settled) == 2
        assert read(store, bad).status is Status.DEAD_LETTER

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("max_attempts", "many"),
            ("created_at", "some day"),
            ("releases", -1),
            *((count, 2**63 - 1) for count in ("attempts", "fence", "lost_leases", "releases", "snoozes")),
        ],
    )
    def test_a_row_that_is_not_a_job_stops_only_itself(self, store: Store, damage: Raw, column: str, value: object) -> None:
        """The neighbours in its turn run, and those after it; it ends dead instead of being met by every claim for ever."""
        before, bad, after = enqueue(store, priority=9), enqueue(store, priority=8), enqueue(store, priority=7)
        damage(bad.id, column, value)
        assert [taken.id for taken in claim_everything(store, 1)] == [before.id, after.id]
        assert store.count(JobFilter(ids=(bad.id,), statuses=(Status.DEAD_LETTER,))) == 1
        assert {before.id, after.id} <= {job.id for job in store.find(JobFilter())}
        for taken in store.held(OWNER):
            assert taken.id != bad.id

    @pytest.mark.parametrize("column", ["lost_leases", "releases"])
    def test_a_row_whose_count_cannot_be_raised_stops_no_sweep(self, store: Store, clock: FakeClock, damage: Raw, column: str) -> None:
        """The sweep would count the loss, fail, and give back nobody's claims ever again."""
        bad, good = enqueue(store, key="k"), enqueue(store)
        claim(store, 2)
        damage(bad.id, column, 2**63 - 1)
        clock.advance(PAST_LEASE)
        assert [job.id for job in store.sweep().requeued] == [good.id]
        assert store.count(JobFilter(ids=(bad.id,), statuses=(Status.DEAD_LETTER,))) == 1
        assert store.enqueue([make_new_job(key="k")])[0].is_new

    @pytest.mark.parametrize("is_running", [False, True], ids=["waiting", "running"])
    @pytest.mark.parametrize("moment", ODD_INSTANTS, ids=repr)
    def test_no_instant_written_by_hand_keeps_a_job_for_ever(
        self, store: Store, clock: FakeClock, damage: Raw, is_running: bool, moment: object
    ) -> None:
        """It runs or it ends, its key is free then, and nobody who works or looks meanwhile meets an error."""
        if not store.capabilities.survives_process:
            pytest.skip("nobody but this process writes its rows, and it holds instants")
        bad = {column: enqueue(store, key=column) for column in INSTANTS}
        if is_running:
            assert len(claim(store, len(bad))) == len(bad)
        good = enqueue(store)
        for column, one in bad.items():
            damage(one.id, column, moment)
        clock.advance(timedelta(days=730))  # past every moment that can be read
        done = set()
        for _ in range(3):
            store.examine()
            assert {store.answer(question).question for question in QUESTIONS} == set(QUESTIONS)
            store.sweep(["work"])
            done |= {taken.id for taken in claim_everything(store) if is_settled(settle(store, taken))}
            clock.advance(PAST_LEASE)
        assert good.id in done
        for column, one in bad.items():
            assert store.count(JobFilter(ids=(one.id,), statuses=LIVE)) == 0, column
            assert store.enqueue([make_new_job(key=column)])[0].is_new, column

    def test_a_fence_that_was_set_back_by_hand_costs_no_ending(self, store: Store, damage: Raw) -> None:
        """Its claim bears the name of an older one, of which the history tells already; that must not undo the turn of its neighbours."""
        bad = bring_to(store, Status.RETRYING)
        damage(bad.id, "fence", 0)
        good = enqueue(store)
        settlements = [Settlement(claim=taken, outcome=Completed(), keeps_history=True) for taken in claim(store, 2)]
        assert store.turn(settlements).settled == tuple(settlements)
        assert [read(store, one).status for one in (bad, good)] == [Status.COMPLETED] * 2

    def test_an_id_that_is_none_is_set_aside_at_the_claim(self, store: Store) -> None:
        """What counts on its form (files, memory shared with the supervisor) must never meet it."""
        good = make_new_job()
        store.enqueue([make_new_job(id="by-hand", key="k"), good])
        assert [taken.id for taken in claim_everything(store, 1)] == [good.id]
        assert store.get("by-hand").status is Status.DEAD_LETTER
        assert "form of an id" in (store.get("by-hand").error or "")
        assert store.enqueue([make_new_job(key="k")])[0].is_new

    @pytest.mark.parametrize("verb", get_args(BulkVerb))
    def test_a_person_acts_on_a_job_that_nobody_can_decode(self, store: Store, damage: Raw, verb: BulkVerb) -> None:
        """Its type is gone and its payload is torn: it is listed, acted on among its neighbours, and its payload stays as it is."""
        status = Status.DEAD_LETTER if verb == "retry" else Status.QUEUED
        bad, good = (bring_to(store, status, delay=NO_DELAY, priority=priority) for priority in (1, 2))
        damage(bad.id, "type", "gone")
        damage(bad.id, "payload", '{"a":')
        assert [job.id for job in store.find(JobFilter(types=("gone",)))] == [bad.id]
        acted = store.act(verb, [bad.id, good.id])
        assert (acted.done, acted.refused) == ((bad.id, good.id), {})
        left = store.find(JobFilter(ids=(bad.id,)))
        assert [(job.type, job.payload) for job in left] == ([] if verb == "delete" else [("gone", '{"a":')])

    def test_two_live_rows_of_one_key_stop_nobody(self, store: Store, clock: FakeClock, damage: Raw) -> None:
        """Somebody wrote the second by hand: both run, and so does everything that came due with them."""
        holder, twin = enqueue(store, key="k"), enqueue(store, key="other", delay=SOON)
        damage(twin.id, "idempotency_key", "k")
        others = [enqueue(store, delay=SOON) for _ in range(100)]
        clock.advance(SOON)
        claims = claim_everything(store, 200)
        assert {taken.id for taken in claims} == {job.id for job in (holder, twin, *others)}
        turn = store.turn([Settlement(claim=taken, outcome=Completed()) for taken in claims])
        assert len(turn.settled) == len(claims)
        assert store.enqueue([make_new_job(key="k")])[0].is_new


class TestUnstorable:
    """An outcome that cannot be stored as it is spares its batch."""

    @pytest.mark.parametrize(
        "outcome",
        [Completed('"\ud800"'), Completed('"\0"'), DeadLettered("bad \ud800 text"), DeadLettered("bad \0 text")],
        ids=["result", "NUL in the result", "error", "NUL in the error"],
    )
    def test_text_that_some_database_cannot_store_ends_its_job_and_spares_the_batch(self, store: Store, outcome: Outcome) -> None:
        """A handler that returns half an emoji must not fail the endings of fifty others, again and again."""
        store.enqueue([make_new_job() for _ in range(3)])
        first, bad, last = claim(store, 3)
        turn = store.turn([Settlement(claim=taken, outcome=outcome if taken is bad else Completed()) for taken in (first, bad, last)])
        assert len(turn.settled) == 3
        assert [told.outcome == outcome for told in turn.settled if told.claim == bad] == [isinstance(outcome, DeadLettered)]
        job = read(store, bad)
        assert (job.status, job.lease_owner) == (outcome.status, None)
        assert job.error or job.result
        assert [read(store, one).error for one in (first, last)] == [None, None]

    @pytest.mark.parametrize(
        "fields",
        [
            {"processed": 2**70},
            {"failed": -1},
            {"processed": Decimal("12345.6")},
            {"failed": float("nan")},
            {"processed": False},
            {"progress": b"1"},
        ],
        ids=str,
    )
    def test_a_value_that_cannot_be_stored_is_refused_and_nothing_of_its_turn_is_stored(self, store: Store, fields: dict[str, Any]) -> None:
        """The worker then stores the outcomes one by one; the error says nothing of the value, which may be secret."""
        store.enqueue([make_new_job() for _ in range(2)])
        good, bad = claim(store, 2)
        with pytest.raises(ValueRefused) as refused:
            store.turn([Settlement(claim=good, outcome=Completed()), Settlement(claim=bad, outcome=DeadLettered("no"), **fields)])
        assert (bad.id in str(refused.value), str(next(iter(fields.values()))) in str(refused.value)) == (True, False)
        assert {read(store, one).status for one in (good, bad)} == {Status.IN_PROGRESS}
        assert store.history(bad.id) == []
        assert is_settled(settle(store, good))
        assert is_settled(settle(store, bad, DeadLettered("no"), processed=2**53))
        assert [kept.processed for kept in store.history(bad.id)] == [2**53]

    def test_a_result_that_is_no_text_is_refused(self, store: Store) -> None:
        """A database would store it as something else, and no reader could read it."""
        taken = bring_to(store, Status.IN_PROGRESS)
        result: Any = {"a": 1}
        with pytest.raises(ValueRefused):
            settle(store, taken, Completed(result))
        assert read(store, taken).status is Status.IN_PROGRESS

    def test_a_long_error_is_stored(self, store: Store) -> None:
        """What is bounded elsewhere need not be small here."""
        taken = bring_to(store, Status.IN_PROGRESS)
        settle(store, taken, DeadLettered("x" * 200_000))
        assert len(read(store, taken).error or "") == 200_000


class TestUnknownCommit:
    """The answer to a commit was lost: the same turn is asked again."""

    @pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=lambda outcome: outcome.name)
    def test_a_repeated_settlement_holds_and_is_stored_once(self, store: Store, clock: FakeClock, outcome: Outcome) -> None:
        """The worker must learn that it was stored, and nothing may happen twice."""
        enqueue(store)
        (taken,) = claim(store)
        child = make_new_job()
        settlements = [Settlement(claim=taken, outcome=outcome, children=(child,), keeps_history=True, processed=1)]
        assert len(store.turn(settlements).settled) == 1
        stored = read(store, taken), store.history(taken.id), store.count(JobFilter())
        clock.advance(1)
        turn = store.turn(settlements)
        assert (turn.settled, turn.lost) == (tuple(settlements), ())
        assert (read(store, taken), store.history(taken.id), store.count(JobFilter())) == stored

    def test_claims_that_nobody_was_told_of_are_held(self, store: Store) -> None:
        """The worker finds them by its own name, and runs them or gives them back."""
        store.enqueue([make_new_job() for _ in range(2)])
        unheard = store.turn(demand=demand(2)).claims
        assert {job.id: job.fence for job in store.held(OWNER)} == {taken.id: taken.fence for taken in unheard}
        assert store.turn(demand=demand(2)).claims == ()

    def test_a_completion_is_not_mistaken_for_a_death_by_lost_lease(self, store: Store, clock: FakeClock) -> None:
        """The row is final and has my fence, and still it was not my settlement that ended it."""
        enqueue(store, max_attempts=1, isolated=True)
        (taken,) = claim(store)
        start_alone(store, taken)
        clock.advance(PAST_LEASE)
        assert len(store.sweep().dead_lettered) == 1
        assert not is_settled(settle(store, taken, Completed()))
        assert read(store, taken).status is Status.DEAD_LETTER


class TestWake:
    """A worker that waits is told."""

    def test_a_wake_before_the_wait_is_not_lost(self, store: Store) -> None:
        """A signal may come in the moment before the worker begins to wait."""
        store.open()
        store.wake()
        assert store.wait(timedelta(0))

    def test_an_enqueue_in_this_process_ends_the_wait(self, store: Store) -> None:
        """The poll is there for what was missed, not for what was seen."""
        store.open()
        assert is_woken(store, lambda: enqueue(store))

    def test_wake_ends_the_wait(self, store: Store) -> None:
        """A worker that is told to stop must not first wait out its poll."""
        store.open()
        assert is_woken(store, store.wake)

    def test_each_of_several_workers_is_woken(self, store: Store) -> None:
        """They may share a store, and what wakes one is not taken from the other."""
        store.open()
        have_claimed, may_wait = Barrier(3), Event()
        woken: list[bool] = []

        def work(queue: str) -> None:
            claim(store, queues=(queue,))
            have_claimed.wait(SOON.total_seconds())
            may_wait.wait(SOON.total_seconds())
            woken.append(store.wait(SOON))

        workers = [Thread(target=work, args=(queue,)) for queue in ("slow", "default")]
        for one in workers:
            one.start()
        have_claimed.wait(SOON.total_seconds())
        store.wake()
        may_wait.set()
        for one in workers:
            one.join()
        assert woken == [True, True]

    def test_a_worker_that_has_ended_takes_no_wake_with_it(self, store: Store) -> None:
        """The next one begins where nobody is."""
        store.open()
        ended = Thread(target=lambda: store.wait(timedelta(0)))
        ended.start()
        ended.join()
        assert is_woken(store, store.wake)


class TestClose:
    """Closing gives back what was opened, and nothing more."""

    def test_a_closed_store_opens_again_with_the_next_verb(self, store: Store) -> None:
        """After a fork, or at the end of a test, nobody should have to think about it."""
        asked = enqueue(store)
        store.close()
        store.close()
        assert read(store, asked).status is Status.QUEUED
        store.open()
        store.open()
        assert len(claim(store)) == 1

    def test_a_store_that_was_opened_exists(self, store: Store) -> None:
        """Who mistypes a path must hear that there is nothing yet, before an empty store is made there."""
        store.open()
        assert store.exists()
        assert not store.needs_migration()

    def test_jobs_outlive_the_process_where_the_store_says_so(self, store: Store, request: pytest.FixtureRequest) -> None:
        """Another process is another store object over the same data."""
        asked = enqueue(store, payload={"n": 1}, key="k")
        stored = read(store, asked)
        store.close()
        if not store.capabilities.survives_process:
            return
        other: Store = request.getfixturevalue("reopen")()
        assert other.get(asked.id) == stored
        assert other.enqueue([make_new_job(key="k")])[0].id == asked.id
        other.close()
