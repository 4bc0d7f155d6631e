"""Callers on Postgres beside each other: who waits for whom, who gets the key, and what an error leaves behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from onward.errors import NoTransaction, StoreBusy
from onward.inspection import JobFilter
from onward.jobs import Accepted
from onward.testing.factories import make_new_job
from tests.drivers.borrowed.callers import Caller
from tests.drivers.borrowed.conftest import Database

PATIENCE = 20.0


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def ask_for_the_key(database: Database, kind: type[Caller]) -> Accepted:
    """What the second caller does, on a connection and in a thread of its own."""
    loser = kind(database.place)
    try:
        loser.begin()
        (accepted,) = loser.enqueue(database.store, make_new_job(key="k"))
        loser.commit()
    finally:
        loser.close()
    return accepted


def wait_until_somebody_waits(database: Database, asked: Future[Any]) -> None:
    """Until a transaction in the store's database waits for another one."""
    until = time.monotonic() + PATIENCE
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
    with psycopg.connect(**database.place, autocommit=True) as connection:  # type: ignore[arg-type]
        while connection.execute(query).fetchone() == (0,):
            assert not asked.done(), asked.result()
            assert time.monotonic() < until, "nobody waits"


def test_two_callers_of_one_key_get_one_job(postgres_here: Database, postgres_kind: type[Caller], thread: ThreadPoolExecutor) -> None:
    """The second waits for the first one's transaction and no longer, and then has its job."""
    winner = postgres_here.caller(postgres_kind)
    winner.begin()
    (first,) = winner.enqueue(postgres_here.store, make_new_job(key="k"))
    asked = thread.submit(ask_for_the_key, postgres_here, postgres_kind)
    wait_until_somebody_waits(postgres_here, asked)
    winner.commit()
    second = asked.result(PATIENCE)
    assert (first.is_new, second.is_new, second.id) == (True, False, first.id)
    assert postgres_here.store.count(JobFilter()) == 1


def test_the_loser_gets_the_key_when_the_winner_rolls_back(
    postgres_here: Database, postgres_kind: type[Caller], thread: ThreadPoolExecutor
) -> None:
    """A job that was never accepted holds nothing."""
    winner = postgres_here.caller(postgres_kind)
    winner.begin()
    (first,) = winner.enqueue(postgres_here.store, make_new_job(key="k"))
    asked = thread.submit(ask_for_the_key, postgres_here, postgres_kind)
    wait_until_somebody_waits(postgres_here, asked)
    winner.rollback()
    second = asked.result(PATIENCE)
    assert second.is_new
    assert second.id != first.id
    assert [job.id for job in postgres_here.store.find(JobFilter())] == [second.id]


def test_a_serialization_failure_is_the_callers_own(postgres_here: Database, postgres_kind: type[Caller]) -> None:
    """Its loop of tries knows the error of its library, and nothing of Onward's."""
    caller = postgres_here.caller(postgres_kind)
    caller.begin()
    caller.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    caller.run("SELECT count(*) FROM sales")
    postgres_here.store.enqueue([make_new_job(key="k")])
    with pytest.raises(caller.serialization_failure) as raised:
        caller.enqueue(postgres_here.store, make_new_job(key="k"))
    told: Any = raised.value
    assert "40001" in [
        getattr(one, name, None) for one in (told, getattr(told, "orig", None), told.__cause__) for name in ("sqlstate", "pgcode")
    ]
    caller.rollback()
    caller.begin()
    assert not caller.enqueue(postgres_here.store, make_new_job(key="k"))[0].is_new
    caller.commit()


def test_a_callers_lock_timeout_ends_the_wait_and_nothing_else(postgres_here: Database, postgres_kind: type[Caller]) -> None:
    """The transaction goes on, and may do without the job or ask again."""
    winner, loser = (postgres_here.caller(postgres_kind) for _ in range(2))
    winner.begin()
    winner.enqueue(postgres_here.store, make_new_job(key="k"))
    loser.begin()
    loser.run("SET LOCAL lock_timeout = '50ms'")
    with pytest.raises(StoreBusy, match="lock_timeout"):
        loser.enqueue(postgres_here.store, make_new_job(key="k"))
    loser.run("INSERT INTO sales VALUES (1)")
    winner.commit()
    assert not loser.enqueue(postgres_here.store, make_new_job(key="k"))[0].is_new
    loser.commit()
    assert postgres_here.store.count(JobFilter()) == 1


@pytest.mark.parametrize("many", [7, 8, 250])
def test_a_lock_timeout_among_many_keys_leaves_none_of_them(postgres_here: Database, postgres_kind: type[Caller], many: int) -> None:
    """However many are taken at once: what was undone holds no key, and a savepoint of the caller's is still the caller's."""
    winner, loser = (postgres_here.caller(postgres_kind) for _ in range(2))
    winner.begin()
    winner.enqueue(postgres_here.store, make_new_job(key="k0"))
    loser.begin()
    loser.run("SET LOCAL lock_timeout = '50ms'")
    loser.run("SAVEPOINT onward")
    loser.run("INSERT INTO sales VALUES (1)")
    (first,) = loser.enqueue(postgres_here.store, make_new_job())
    with pytest.raises(StoreBusy, match="lock_timeout"):
        loser.enqueue(postgres_here.store, *[make_new_job(key=f"k{number}") for number in range(many)])
    loser.run("ROLLBACK TO SAVEPOINT onward")
    (last,) = loser.enqueue(postgres_here.store, make_new_job())
    loser.commit()
    winner.rollback()
    assert [job.id for job in postgres_here.store.find(JobFilter())] == [last.id] != [first.id]
    assert all(one.is_new for one in postgres_here.store.enqueue([make_new_job(key=f"k{number}") for number in range(many)]))
    with psycopg.connect(**postgres_here.place, autocommit=True) as connection:  # type: ignore[arg-type]
        assert connection.execute("SELECT count(*) FROM sales").fetchone() == (0,)


@pytest.mark.parametrize("many", [1, 8, 250])
def test_a_request_that_was_overtaken_by_its_own_ids_keeps_no_other_keys(
    postgres_here: Database, postgres_kind: type[Caller], thread: ThreadPoolExecutor, many: int
) -> None:
    """The stored jobs have the keys of the first request; nobody would ever give those of the second back."""
    store = postgres_here.store
    asked = [make_new_job(key=f"a{number}") for number in range(many)]
    neighbours = {"type": "mail"}, {"owner": "ada"}
    for fields in neighbours:
        store.enqueue([make_new_job(key=f"b{job.key}", **fields) for job in asked])
    winner = postgres_here.caller(postgres_kind)
    winner.begin()
    winner.enqueue(store, *asked)
    again = thread.submit(store.enqueue, [replace(job, key=f"b{job.key}") for job in asked])
    wait_until_somebody_waits(postgres_here, again)
    winner.commit()
    assert again.result(PATIENCE) == [Accepted(job.id, is_new=False) for job in asked]
    assert all(one.is_new for one in store.enqueue([make_new_job(key=f"b{job.key}") for job in asked]))
    for fields in neighbours:
        assert not any(one.is_new for one in store.enqueue([make_new_job(key=f"b{job.key}", **fields) for job in asked]))
    assert not any(one.is_new for one in store.enqueue([make_new_job(key=job.key) for job in asked]))


def test_nothing_joins_a_transaction_that_has_failed(postgres_here: Database, postgres_kind: type[Caller]) -> None:
    """Postgres would roll the job back, whatever the caller commits; so it says what to do, and then it works."""
    caller = postgres_here.caller(postgres_kind)
    caller.begin()
    caller.failing("SELECT 1 / 0")
    with pytest.raises(NoTransaction, match="roll back first"):
        caller.enqueue(postgres_here.store, make_new_job())
    caller.rollback()
    caller.begin()
    caller.enqueue(postgres_here.store, make_new_job())
    caller.commit()
    assert postgres_here.store.count(JobFilter()) == 1


def test_the_sessions_settings_change_nothing(postgres_here: Database, postgres_kind: type[Caller]) -> None:
    """Zone, style of dates, search path and strings belong to the application; what is stored and read is the same."""
    caller = postgres_here.caller(postgres_kind)
    caller.begin()
    for setting in (
        "TimeZone = 'Asia/Tokyo'",
        "DateStyle = 'SQL, DMY'",
        "search_path = ''",
        "standard_conforming_strings = off",
        "escape_string_warning = off",
    ):
        caller.run(f"SET LOCAL {setting}")
    asked = make_new_job(key="k", payload='{"path": "C:\\\\new \\u00e9", "share": "100 %(id)s"}')
    caller.enqueue(postgres_here.store, asked)
    found = caller.verb(postgres_here.store, "get", asked.id)
    caller.commit()
    assert found == postgres_here.store.get(asked.id)
    assert found.payload == asked.payload
