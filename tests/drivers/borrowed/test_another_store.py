"""A caller's connection to the tables of another store, under the names of ours: the job would be accepted, and no worker would see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import conninfo

from onward.clock import FakeClock, SystemClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.memory.store import MemoryStore
from onward.drivers.postgres.url import read_url
from onward.errors import NoTransaction
from onward.inspection import JobFilter
from onward.outcome import Completed
from onward.testing.factories import make_new_job
from onward.turn import Claim, Settlement
from tests.drivers.borrowed.callers import Caller
from tests.drivers.borrowed.conftest import ON_SQLITE, Database


def place_of(url: str) -> dict[str, Any]:
    return conninfo.conninfo_to_dict(read_url(url)[0])


def name_of(url: str) -> str:
    return str(place_of(url)["dbname"])


def opened(url: str) -> Store:
    """A store whose tables are made, if they are not there yet."""
    store = connect(url, clock=SystemClock(), migrate=True)
    store.open()
    return store


@pytest.fixture
def other(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[Store]:
    """A store of the same kind, and under the same names, in another database."""
    if request.node.callspec.params["kind"] in ON_SQLITE:
        url = f"sqlite:///{tmp_path}/other.db"
    else:
        url = f"{request.getfixturevalue('postgres_database')}?schema={read_url(database.url)[1]['schema']}"
    with closing(opened(url)) as store:
        with store.transaction() as connection:
            connection.execute("CREATE TABLE sales (number INTEGER)")
        yield store


@pytest.fixture
def stranger(other: Store, kind: type[Caller]) -> Iterator[Caller]:
    """A caller on the other store's database."""
    caller = kind(other.url.removeprefix("sqlite:///") if other.url.startswith("sqlite:") else place_of(other.url))
    yield caller
    caller.close()


def test_another_stores_tables_are_refused_and_both_places_are_named(store: Store, other: Store, stranger: Caller) -> None:
    """Nothing is stored in either, and the caller's transaction goes on."""
    theirs, ours = ("other.db", "app.db") if store.url.startswith("sqlite:") else (name_of(other.url), name_of(store.url))
    stranger.begin()
    stranger.run("INSERT INTO sales VALUES (1)")
    with pytest.raises(NoTransaction) as told:
        stranger.enqueue(store, make_new_job())
    stranger.commit()
    assert theirs in str(told.value).partition("the jobs of this store")[0]
    assert ours in str(told.value).partition("the jobs of this store")[2]
    assert "no transaction spans both" in str(told.value)
    assert len(str(told.value).splitlines()) == 1
    assert (store.count(JobFilter()), other.count(JobFilter())) == (0, 0)
    with other.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM sales").fetchone() == (1,)
    stranger.begin()
    assert stranger.enqueue(other, make_new_job())[0].is_new
    stranger.commit()


def test_no_verb_works_on_another_stores_tables(store: Store, other: Store, stranger: Caller) -> None:
    """A copy of the tables has jobs of the same ids, and neither of them is to be taken for the other."""
    (copied,) = other.enqueue([make_new_job()])
    claim = Claim(other.get(copied.id), timedelta(minutes=1))
    verbs = [
        ("get", copied.id),
        ("cancel", copied.id),
        ("retry", copied.id),
        ("confirm", claim),
        ("settle", Settlement(claim=claim, outcome=Completed())),
    ]
    stranger.begin()
    for verb, asked in verbs:
        with pytest.raises(NoTransaction, match="no transaction spans both"):
            stranger.verb(store, verb, asked)
    stranger.rollback()


@pytest.mark.parametrize("kind", ["sqlite3", "psycopg"], indirect=True)
def test_the_own_transaction_of_another_store_is_refused(store: Store, other: Store) -> None:
    """Two stores in one application are easily taken for each other."""
    with other.transaction() as connection, pytest.raises(NoTransaction, match="no transaction spans both"):
        store.within(connection).enqueue([make_new_job()])
    assert (store.count(JobFilter()), other.count(JobFilter())) == (0, 0)


def test_the_transaction_of_another_memory_store_is_refused() -> None:
    """Each has jobs of its own."""
    ours, theirs = MemoryStore(clock=FakeClock()), MemoryStore(clock=FakeClock())
    with theirs.transaction() as connection:
        for join in (ours.within, ours.within_async):
            with pytest.raises(NoTransaction, match="another memory store"):
                join(connection)
        theirs.within(connection).enqueue([make_new_job()])
    assert (ours.count(JobFilter()), theirs.count(JobFilter())) == (0, 1)
