"""One job that is enqueued by itself takes one round trip, and is in nothing different from those that take four."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import sql

from onward.clock import FakeClock, SystemClock
from onward.driver import Within
from onward.drivers.postgres import database as database_module
from onward.drivers.postgres.connections import StoreConnection
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.url import read_url
from onward.errors import DuplicateJob, OutcomeUnknown, StoreBusy, StoreUnavailable, ValueRefused
from onward.inspection import JobFilter
from onward.testing.factories import make_new_job
from onward.turn import Demand

NOW = FakeClock().now()
HOUR = timedelta(hours=1)
ASKED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a payload": {"payload": {"text": "Zoë 🙂 \\ \"quoted\" 'single' \t\n", "number": 2**53}},
    "all its words": {
        "queue": "mail",
        "priority": -100,
        "max_attempts": 2**53,
        "owner": "tenant",
        "metadata": '{"a":"b"}',
        "concurrency_key": "c",
        "serial_key": "s",
        "breaker": "b",
        "isolated": True,
    },
    "an instant": {"at": NOW + HOUR},
    "an instant that is over": {"at": NOW - HOUR},
    "the last of all instants": {"at": NOW.max.replace(tzinfo=NOW.tzinfo)},
    "an instant and an expiry": {"at": NOW + HOUR, "expires": HOUR},
    "an expiry": {"expires": HOUR},
    "a delay": {"delay": HOUR},
    "a delay and an expiry": {"delay": HOUR, "expires": HOUR},
    "a key": {"key": "k"},
}
IN_ONE = {
    "nothing",
    "a payload",
    "all its words",
    "an instant",
    "an instant that is over",
    "the last of all instants",
    "an instant and an expiry",
}


@pytest.fixture
def url(emptied_postgres: Callable[[str], str]) -> str:
    return emptied_postgres("postgres")


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[..., PostgresStore]]:
    made: list[PostgresStore] = []

    def make(clock: Any = None, **options: Any) -> PostgresStore:
        conninfo, known = read_url(url)
        made.append(PostgresStore(conninfo, clock=clock or FakeClock(), migrate=True, **(known | options)))
        made[-1].open()
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every wait for an answer of the server's."""
    seen: list[object] = []
    before = StoreConnection.wait

    def wait(self: StoreConnection, *arguments: Any, **options: Any) -> Any:
        seen.append(self)
        return before(self, *arguments, **options)

    monkeypatch.setattr(StoreConnection, "wait", wait)
    return seen


@pytest.mark.parametrize("name", ASKED)
def test_it_is_stored_as_in_company(open_store: Callable[..., PostgresStore], exchanges: list[object], name: str) -> None:
    store = open_store()
    store.enqueue([make_new_job()])
    del exchanges[:]
    alone, other = make_new_job(**ASKED[name]), make_new_job(**ASKED[name])
    assert store.enqueue([alone])[0].is_new
    assert (len(exchanges) == 1) == (name in IN_ONE)
    if alone.key is not None:
        other = replace(other, key="another")
    assert all(answer.is_new for answer in store.enqueue([other, make_new_job()]))
    found = store.get(alone.id)
    assert replace(store.get(other.id), id=alone.id, idempotency_key=alone.key) == found
    assert found.payload == alone.payload


def test_a_claim_asks_no_more_where_more_is_due_than_it_takes(open_store: Callable[..., PostgresStore], exchanges: list[object]) -> None:
    """It says so, and the next turn comes at once: one round trip, where the server and libpq can."""
    store, counts = open_store(), []
    demand = Demand(lease_owner="host:1:one", slots=1, types={"work": HOUR})
    store.enqueue([make_new_job() for _ in range(3)])
    for _ in range(3):
        del exchanges[:]
        assert len(store.turn(demand=demand).claims) == 1
        counts.append(len(exchanges))
    assert counts[1] == counts[2]
    assert exchanges[-1].can_pipeline == psycopg.Capabilities().has_pipeline()  # type: ignore[attr-defined]


def test_by_the_clock_of_the_server(open_store: Callable[..., PostgresStore]) -> None:
    """What is due at once is due by the same clock that claims it."""
    store = open_store(SystemClock())
    job = make_new_job()
    store.enqueue([job])
    found = store.get(job.id)
    assert found.scheduled_at == found.created_at == found.updated_at


def test_again_and_of_another(open_store: Callable[..., PostgresStore]) -> None:
    store = open_store()
    job = make_new_job(payload=1)
    store.enqueue([job])
    (again,) = store.enqueue([job])
    assert (again.id, again.is_new) == (job.id, False)
    with pytest.raises(DuplicateJob):
        store.enqueue([replace(make_new_job(payload=2), id=job.id)])
    assert store.count(JobFilter()) == 1


@pytest.mark.parametrize("fields", [{"owner": "\0"}, {"max_attempts": 2**70}, {"priority": 101}])
def test_what_cannot_be_stored_is_told(open_store: Callable[..., PostgresStore], fields: dict[str, Any]) -> None:
    store = open_store()
    with pytest.raises(ValueRefused):
        store.enqueue([make_new_job(**fields)])
    assert store.count(JobFilter()) == 0


def test_an_id_that_an_open_transaction_has_stored(open_store: Callable[..., PostgresStore], url: str) -> None:
    """Nobody can say yet whether there will be such a job: it is waited for no longer than the timeout."""
    store, job = open_store(timeout=timedelta(milliseconds=100)), make_new_job()
    with psycopg.connect(read_url(url)[0]) as connection:
        within: Within = store.within(connection)
        within.enqueue([job])
        with pytest.raises(StoreBusy, match="lock_timeout"):
            store.enqueue([job])
        connection.rollback()
    assert store.enqueue([job])[0].is_new


def test_a_table_that_is_locked(open_store: Callable[..., PostgresStore], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was given up must not be stored when the lock is let go: nobody would know of it."""
    monkeypatch.setattr(database_module, "ANSWER_WITHIN", 0.5)
    store = open_store(timeout=timedelta(milliseconds=100))
    store.enqueue([make_new_job()])
    with psycopg.connect(read_url(url)[0]) as connection:
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(store.schema, "jobs")))
        with pytest.raises(StoreBusy):
            store.enqueue([make_new_job()])
        connection.rollback()
    assert store.count(JobFilter()) == 1


def lose_the_first(monkeypatch: pytest.MonkeyPatch, *, is_done: bool) -> None:
    """The connection ends with the statement: before the server has done it, or with its answer on the way."""
    before = StoreConnection.run

    def run(self: StoreConnection, text: Any, wanted: Any) -> Any:
        if getattr(wanted, "name", None) != "enqueue_alone":
            return before(self, text, wanted)
        if is_done:
            before(self, text, wanted)
        self.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(StoreConnection, "run", run)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_connection_that_was_lost(open_store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch, is_done: bool) -> None:
    """It is done again, by its id, so that a restart of the server is no reason for an application to do so."""
    store = open_store()
    lose_the_first(monkeypatch, is_done=is_done)
    job = make_new_job()
    (answer,) = store.enqueue([job])
    assert (answer.id, answer.is_new) == (job.id, not is_done)
    assert store.count(JobFilter()) == 1


@pytest.mark.parametrize("error", [StoreUnavailable("the server is gone"), StoreBusy("the server is busy")])
def test_a_connection_that_was_lost_and_no_other(
    open_store: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The job may be stored, so what the second try met is no answer."""
    store, job = open_store(), make_new_job()
    lose_the_first(monkeypatch, is_done=True)

    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(database_module.Database, "transact", refuse)
        with pytest.raises(OutcomeUnknown) as told:
            store.enqueue([job])
    assert told.value.job_ids == (job.id,)
    assert store.get(job.id).id == job.id
