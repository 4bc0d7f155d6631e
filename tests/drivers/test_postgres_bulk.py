"""Many rows by ``COPY``: the same answers and the same rows as by the statements, whatever stands in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from onward.clock import FakeClock
from onward.drivers.postgres import bulk, connections
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.url import read_url
from onward.drivers.sql import enqueue
from onward.errors import DuplicateJob, StoreBusy
from onward.inspection import JobFilter
from onward.jobs import Accepted, NewJob
from onward.testing.conformance import (  # noqa: F401  # the suite's own cases, over this way of storing
    TestDuplicates,
    TestEnqueue,
    TestEnqueueAgain,
    TestForeignId,
    TestHolder,
    TestRequests,
    TestScopeActive,
    TestScopeInTime,
    TestWritten,
)
from onward.testing.conformance.steps import claim, claim_one, until_it_waits
from onward.testing.factories import make_new_job

HOUR = timedelta(hours=1)
AWKWARD = ["a\tb", "back\\slash \\N \\.", "line\nand\rreturn", "\x0b\x0c\x08", "ünï¢ødé 𝄞", "'quoted\"", "{}", "\\", "\x7f\u2028"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def url(emptied_postgres: Callable[[str], str]) -> str:
    return emptied_postgres("postgres")


@pytest.fixture
def store(url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """One that copies whatever there is, and takes keys together, however few."""
    monkeypatch.setattr(connections, "WORTH_COPYING", 1)
    monkeypatch.setattr(enqueue, "TOGETHER_FROM", 1)
    conninfo, known = read_url(url)
    store = PostgresStore(conninfo, clock=clock, migrate=True, **known)
    yield store
    store.close()


@pytest.fixture
def reopen(url: str, clock: FakeClock) -> Callable[[], PostgresStore]:
    def another() -> PostgresStore:
        conninfo, known = read_url(url)
        return PostgresStore(conninfo, clock=clock, **known)

    return another


def awkward() -> Iterator[NewJob]:
    for number, text in enumerate(AWKWARD):
        yield make_new_job(payload=text, owner=text if text.isprintable() else "", priority=number, expires=HOUR, queue=f"q{number}")
        yield make_new_job(payload={text: [text]}, key=f"{text}{number}" if text.isprintable() else None, delay=HOUR, isolated=True)
        yield make_new_job(metadata='{"note":"\\\\ \\u0001"}', at=None, max_attempts=7, concurrency_key="c", serial_key="s", breaker="b")


def test_the_rows_are_those_of_the_statement(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escapes of ``COPY`` are not those of JSON."""
    asked = list(awkward())
    store.enqueue(asked)
    by_copy = [store.get(job.id) for job in asked]
    for job in asked:
        store.delete(job.id)
    monkeypatch.setattr(connections, "WORTH_COPYING", 10**9)
    store.enqueue(asked)
    assert [store.get(job.id) for job in asked] == by_copy


def test_many_pieces_are_one_request(store: PostgresStore) -> None:
    asked = [make_new_job(payload=number, key=str(number)) for number in range(3 * bulk.PIECE + 1)]
    assert all(one.is_new for one in store.enqueue(asked))
    assert [one.id for one in store.enqueue([make_new_job(payload=number, key=str(number)) for number in range(len(asked))])] == [
        job.id for job in asked
    ]


def test_a_key_that_is_taken_in_the_moment_before_is_the_other_s(store: PostgresStore, url: str) -> None:
    """Its transaction ends while the rows are copied; all the others are stored all the same."""
    asked = [make_new_job(key=key) for key in "abc"]
    other = make_new_job(key="b")
    answers: list[Accepted] = []
    thread = threading.Thread(target=lambda: answers.extend(store.enqueue(asked)), daemon=True)
    with psycopg.connect(read_url(url)[0]) as connection:
        store.within(connection).enqueue([other])
        thread.start()
        until_it_waits(thread)
        assert thread.is_alive()
    thread.join()
    assert answers == [Accepted(asked[0].id), Accepted(other.id, is_new=False), Accepted(asked[2].id)]


def test_an_id_that_is_stored_in_the_moment_before_is_the_same_job(store: PostgresStore, url: str) -> None:
    asked = [make_new_job(payload=number) for number in range(3)]
    answers: list[Accepted] = []
    thread = threading.Thread(target=lambda: answers.extend(store.enqueue(asked)), daemon=True)
    with psycopg.connect(read_url(url)[0]) as connection:
        store.within(connection).enqueue([asked[1]])
        thread.start()
        until_it_waits(thread)
        assert thread.is_alive()
    thread.join()
    assert [one.is_new for one in answers] == [True, False, True]
    assert claim_one(store).id == asked[0].id


def test_a_refusal_undoes_what_was_copied(store: PostgresStore) -> None:
    held = make_new_job(key="b")
    store.enqueue([held])
    refused = [make_new_job(key=key, on_duplicate="raise") for key in "abc"]
    with pytest.raises(DuplicateJob):
        store.enqueue(refused)
    assert all(one.is_new for one in store.enqueue([make_new_job(key="a"), make_new_job(key="c")]))


def test_tables_with_row_level_security_are_filled_by_the_statements(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``COPY`` does not work there for a role that is not above it, and nobody is told at set-up."""
    real, refused = bulk._copy, []

    def refuse(*arguments: Any) -> None:
        refused.append(arguments[2])
        raise psycopg.errors.FeatureNotSupported("COPY FROM not supported with row-level security")

    monkeypatch.setattr(bulk, "_copy", refuse)
    assert all(one.is_new for one in store.enqueue([make_new_job(key=key) for key in "ab"]))
    assert refused == ["keys", "jobs"]
    monkeypatch.setattr(bulk, "_copy", real)
    assert len(claim(store, 5)) == 2


def test_a_key_that_a_trigger_keeps_out_is_not_taken_for_stored(store: PostgresStore, url: str) -> None:
    """``COPY`` says nothing of rows that a trigger leaves out; a job without its key would be no answer to anybody."""
    store.open()
    with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
        connection.execute(f"""
            CREATE FUNCTION keep_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN NEW.key <> 'k7' THEN NEW END; END $$;
            CREATE TRIGGER keep_out BEFORE INSERT ON "{store.schema}".keys FOR EACH ROW EXECUTE FUNCTION keep_out()
        """)
        with pytest.raises(StoreBusy, match="the key 'k7'"):
            store.enqueue([make_new_job(key=f"k{number}") for number in range(20)])
        assert connection.execute(f'SELECT count(*) FROM "{store.schema}".keys').fetchone() == (0,)
    assert store.count(JobFilter()) == 0


def test_each_queue_of_what_is_soon_due_is_told(store: PostgresStore, url: str) -> None:
    """A worker that sleeps for 30 s must hear of it; what is due much later it will see by itself."""
    schema = str(read_url(url)[1].get("schema", "onward"))
    with psycopg.connect(read_url(url)[0], autocommit=True) as listener:
        listener.execute(f'LISTEN "{schema}"'.encode())
        store.enqueue([make_new_job(queue=name) for name in ("b", "a", "b")] + [make_new_job(queue="later", delay=HOUR)])
        store.enqueue([make_new_job(queue="end", delay=timedelta(seconds=59))])
        heard: list[str] = []
        for notification in listener.notifies(timeout=20):
            heard.append(notification.payload)
            if heard[-1] == "end":
                break
    assert heard == ["a", "b", "end"]


def test_a_store_without_notifications_tells_nobody(url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WORTH_COPYING", 1)
    conninfo, known = read_url(url)
    options: dict[str, Any] = known | {"notify": False}
    silent = PostgresStore(conninfo, clock=clock, migrate=True, **options)
    schema = str(known.get("schema", "onward"))
    with psycopg.connect(conninfo, autocommit=True) as listener:
        listener.execute(f'LISTEN "{schema}"'.encode())
        silent.enqueue([make_new_job()])
        listener.execute(f"SELECT pg_notify('{schema}', 'end')".encode())
        assert [one.payload for one in listener.notifies(timeout=20, stop_after=1)] == ["end"]
    silent.close()
