"""What a person asks for meets what somebody else's transaction has done and not committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from onward.drivers.postgres.connections import StoreConnection
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.url import read_url
from onward.ids import new_id
from onward.limit import Limit
from onward.outcome import Completed, Snoozed
from onward.status import Status
from onward.testing.conformance.steps import bring_to, claim, demand, enqueue, read
from onward.testing.factories import make_new_job
from onward.turn import Claim, Settlement

PATIENCE = 30.0


@pytest.fixture
def other(store: PostgresStore, postgres_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(read_url(postgres_database)[0]) as connection:
        yield connection


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


def until_it_waits(connection: psycopg.Connection[Any], asked: Future[Any]) -> None:
    """Until a transaction waits for that of this connection."""
    until = time.monotonic() + PATIENCE
    query = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    while connection.execute(query).fetchone() == (0,):
        assert not asked.done(), asked.result()
        assert time.monotonic() < until, "nobody waits"


DELETIONS: list[Callable[[PostgresStore, Claim], object]] = [
    lambda store, job: store.delete(job.id),
    lambda store, job: store.act("delete", [job.id]),
]


@pytest.mark.parametrize("delete", DELETIONS, ids=["one", "many"])
def test_a_deletion_that_waits_for_a_retry_leaves_no_key_behind(
    store: PostgresStore, other: psycopg.Connection[Any], thread: ThreadPoolExecutor, delete: Callable[[PostgresStore, Claim], object]
) -> None:
    """The retry has taken the key, and nobody can see that yet. A key without a job would be held for ever, and each enqueue lost."""
    job = bring_to(store, Status.CANCELLED, key="k")
    store.within(other).retry(job.id)
    deleting = thread.submit(delete, store, job)
    until_it_waits(other, deleting)
    other.commit()
    deleting.result(PATIENCE)
    assert store.enqueue([make_new_job(key="k")])[0].is_new


@pytest.mark.parametrize("status", [Status.DEAD_LETTER, Status.CANCELLED])
def test_a_job_that_was_retried_meanwhile_is_not_meant_any_more(
    store: PostgresStore, other: psycopg.Connection[Any], thread: ThreadPoolExecutor, status: Status
) -> None:
    """Whoever deletes dead letters does not mean a job that waits again."""
    job = bring_to(store, status)
    store.within(other).retry(job.id)
    deleting = thread.submit(store.act, "delete", [job.id], [status])
    until_it_waits(other, deleting)
    other.commit()
    assert deleting.result(PATIENCE).refused == {job.id: f"job {job.id} is queued by now"}
    assert read(store, job).status is Status.QUEUED


def test_a_job_that_was_claimed_meanwhile_is_not_stopped(store: PostgresStore) -> None:
    """Whoever cancels what waits does not mean what runs."""
    job = enqueue(store)
    claim(store)
    assert store.act("cancel", [job.id], [Status.QUEUED]).refused == {job.id: f"job {job.id} is in_progress by now"}
    assert read(store, job).cancel_requested_at is None


def test_a_pause_waits_for_the_claims_that_cannot_have_seen_it(
    store: PostgresStore, other: psycopg.Connection[Any], thread: ThreadPoolExecutor
) -> None:
    """Those have begun before it was stored. Once it has returned, none of them can bring a job any more."""
    enqueue(store, queue="mail")
    other.execute(f"SELECT pg_advisory_xact_lock_shared(hashtextextended('onward claims {store.schema}', 0))")  # as a claim does
    pausing = thread.submit(store.pause, "mail")
    until_it_waits(other, pausing)
    assert store.paused() == {"mail": store.clock.now()}
    other.rollback()
    assert pausing.result(PATIENCE)
    assert claim(store, 5) == ()


def test_every_claim_lets_a_pause_wait_for_it(store: PostgresStore, other: psycopg.Connection[Any], thread: ThreadPoolExecutor) -> None:
    """A look, and the turn that stores what ended: both stand behind a pause that is just being made."""
    other.execute(f"SELECT pg_advisory_xact_lock(hashtextextended('onward claims {store.schema}', 0))")
    job = enqueue(store)
    looking = thread.submit(claim, store)
    until_it_waits(other, looking)
    other.rollback()
    assert [one.id for one in looking.result(PATIENCE)] == [job.id]


def test_a_transaction_that_claims_says_so_once(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn, and the second transaction of a look that found something in its way. Each of these is a round trip."""
    asked: list[str] = []
    before = StoreConnection.run

    def run(self: StoreConnection, text: Any, wanted: Any) -> Any:
        asked.append(wanted.name)
        return before(self, text, wanted)

    job = enqueue(store)
    (taken,) = claim(store)
    assert taken.id == job.id
    monkeypatch.setattr(StoreConnection, "run", run)
    store.turn([Settlement(claim=taken, outcome=Completed())], demand())
    assert (asked[:3], asked.count("begin_claiming"), {*asked[3:]} - {"claim"}) == (["complete", "begin_claiming", "claim"], 1, set())
    asked.clear()
    enqueue(store, type="unheard-of")
    asked.clear()
    claim(store)
    assert (asked[0], asked.count("begin_claiming"), asked[-1]) == ("begin_claiming", 1, "claim")


RATE, OTHER_RATE = Limit(rate="1/h", burst=5), Limit(rate="2/h", burst=5)
CHANGES: dict[str, tuple[Callable[[PostgresStore], object], list[Limit]]] = {
    "set": (lambda store: store.set_limit("queue", "mail", OTHER_RATE), [OTHER_RATE]),
    "cleared": (lambda store: store.clear_limit("queue", "mail"), []),
    "declared": (lambda store: store.declare_limits({"mail": OTHER_RATE}), [OTHER_RATE]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_limit_that_is_changed_under_a_claim_stays_changed(
    store: PostgresStore, thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The claim has read it, and writes down what it has spent of its rate."""
    store.declare_limits({"mail": RATE})
    changes, after = CHANGES[change]
    enqueue(store, queue="mail")
    asked: list[Future[Any]] = []
    before = StoreConnection.run

    def run(self: StoreConnection, text: Any, wanted: Any) -> Any:
        if wanted.name == "running_of_queues" and not asked:
            asked.append(thread.submit(changes, store))
            wait(asked, timeout=0.2)  # what does not wait is through by then
        return before(self, text, wanted)

    monkeypatch.setattr(StoreConnection, "run", run)
    assert len(claim(store)) == 1
    asked[0].result(PATIENCE)
    assert [one.state.limit for one in store.limits()] == after


@pytest.mark.parametrize("meanwhile", ["snoozed", "paused"])
def test_a_job_that_was_made_due_later_meanwhile_is_not_claimed(
    store: PostgresStore, thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Between the look that found it and the claim: by another worker that ran it, or by a person who paused its queue."""
    job = enqueue(store, serial_key="k")
    asked: list[str] = []
    before = StoreConnection.run

    def elsewhere() -> None:
        with closing(PostgresStore(store.whole_url or store.url, clock=store.clock)) as other:
            if meanwhile == "paused":
                other.pause("default")
                return
            (taken,) = claim(other)
            other.turn([Settlement(claim=taken, outcome=Snoozed(timedelta(hours=1)))])

    def run(self: StoreConnection, text: Any, wanted: Any) -> Any:
        asked.append(wanted.name)
        if wanted.name == "begin_claiming" and "away" not in asked:
            asked.append("away")
            thread.submit(elsewhere).result(PATIENCE)
        return before(self, text, wanted)

    monkeypatch.setattr(StoreConnection, "run", run)
    assert claim(store) == ()
    assert "away" in asked
    assert read(store, job).status is Status.QUEUED


def test_keys_of_a_window_outlive_a_deletion(store: PostgresStore) -> None:
    """Only those of scope active are given up."""
    job = enqueue(store, key="k", scope=timedelta(hours=1))
    store.act("delete", [job.id])
    assert not store.enqueue([make_new_job(key="k", id=new_id())])[0].is_new
