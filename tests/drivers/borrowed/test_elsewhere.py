"""A caller's connection to a database that is not the store's, or that a job cannot join as it is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.cache import cache
from psycopg import conninfo
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from onward.errors import NoTransaction, SchemaOutOfDate, StoreUnavailable
from onward.testing.factories import make_new_job
from tests.drivers.borrowed import callers
from tests.drivers.borrowed.callers import Caller
from tests.drivers.borrowed.conftest import ON_SQLITE, Database
from tests.loopback import HOST


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> callers.Place:
    """A database of the same kind that has no tables of Onward."""
    if request.node.callspec.params["kind"] in ON_SQLITE:
        return str(tmp_path / "other.db")
    return conninfo.conninfo_to_dict(request.getfixturevalue("postgres_database"))


def test_a_database_without_our_tables_is_named(database: Database, kind: type[Caller], elsewhere: callers.Place) -> None:
    """A job in another database would never run. The caller's transaction goes on."""
    caller = kind(elsewhere)
    try:
        caller.begin()
        caller.run("CREATE TABLE sales (number INTEGER)")
        with pytest.raises(SchemaOutOfDate, match=r"sees no tables of.*onward migrate"):
            caller.enqueue(database.store, make_new_job())
        caller.run("INSERT INTO sales VALUES (1)")
        caller.commit()
        caller.begin()
        caller.run("DELETE FROM sales")
        caller.commit()
    finally:
        caller.close()


def test_a_connection_to_the_other_database_is_told_apart(sqlite: Database, postgres_here: Database) -> None:
    """Both are known, and yet no transaction spans them."""
    for database, kind, theirs, ours in (
        (postgres_here, callers.SQLite3, "SQLite", "Postgres"),
        (sqlite, callers.Psycopg, "Postgres", "SQLite"),
        (sqlite, callers.Asyncpg, "Postgres", "SQLite"),
    ):
        other = sqlite if database is postgres_here else postgres_here
        caller = other.caller(kind)
        with pytest.raises(NoTransaction, match=f"a connection to {theirs}, and the jobs of this store are in {ours}"):
            caller.enqueue(database.store, make_new_job())


def test_a_session_on_the_other_database_is_told_apart(sqlite: Database, postgres_here: Database) -> None:
    """What it leads to is only known when it is used."""
    engine = create_engine(f"sqlite:///{sqlite.place}")
    with (
        Session(engine) as session,
        pytest.raises(NoTransaction, match="a connection to SQLite, and the jobs of this store are in Postgres"),
    ):
        postgres_here.store.within(session)
    engine.dispose()


def test_the_wrong_colour_names_the_right_verb(sqlite: Database, postgres_here: Database) -> None:
    """A coroutine that nobody awaits would lose the job without a word."""
    engine = create_engine(f"sqlite:///{sqlite.place}")
    with Session(engine) as session, pytest.raises(NoTransaction, match=r"app\.enqueue"):
        sqlite.store.within_async(session)
    engine.dispose()
    caller = postgres_here.caller(callers.Asyncpg)
    with pytest.raises(NoTransaction, match=r"await app\.aenqueue"):
        postgres_here.store.within(caller.connection)

    async def story() -> None:
        awaited = create_async_engine(f"sqlite+aiosqlite:///{sqlite.place}")
        async with AsyncSession(awaited) as session:
            with pytest.raises(NoTransaction, match="aenqueue"):
                sqlite.store.within(session)

            def inside(sync_session: Session) -> None:
                with pytest.raises(NoTransaction, match="aenqueue"):
                    sqlite.store.within(sync_session)

            await session.run_sync(inside)
        await awaited.dispose()

    asyncio.run(story())


def test_what_is_no_connection_is_refused(sqlite: Database, postgres_here: Database) -> None:
    """A pool or an engine has no transaction to join; Django's cache only looks like its connection."""
    engine = create_engine("sqlite://")
    for database in (sqlite, postgres_here):
        for wrong in (object(), "connection"):
            with pytest.raises(NoTransaction, match=r"django, .*sqlalchemy"):
                database.store.within(wrong)
        with pytest.raises(NoTransaction, match="give the session or connection made from it"):
            database.store.within(engine)
        with pytest.raises(NoTransaction, match=r"django\.db\.connection"):
            database.store.within(cache)
    engine.dispose()


def test_a_closed_connection_is_refused(postgres_here: Database) -> None:
    """Its error belongs to its library and must not leave the driver."""
    for kind in (callers.Psycopg, callers.PsycopgAsync, callers.Psycopg2, callers.Asyncpg):
        caller = postgres_here.caller(kind)
        caller.call(caller.connection.close())
        with pytest.raises(NoTransaction, match="closed"):
            caller.enqueue(postgres_here.store, make_new_job())


def test_a_session_that_cannot_connect_says_so(sqlite: Database) -> None:
    """The application's own database is away; nothing was accepted."""
    engine = create_engine(f"postgresql+psycopg://nobody@{HOST}:1/nothing")
    with Session(engine) as session, pytest.raises(StoreUnavailable, match="cannot begin a transaction"):
        sqlite.store.within(session)
    engine.dispose()


def test_no_library_is_imported_for_a_bridge(postgres_here: Database) -> None:
    """An application has the libraries that it uses, and pays for no other."""
    code = (
        "import sys, psycopg; from onward.clock import SystemClock; from onward.drivers import connect\n"
        f"store = connect({postgres_here.url!r}, clock=SystemClock())\n"
        f"connection = psycopg.connect(**{dict(postgres_here.place)!r})\n"  # type: ignore[call-overload]
        "store.within(connection); connection.close(); store.close()\n"
        "print(*[name for name in ('psycopg2', 'asyncpg', 'sqlalchemy', 'django', 'aiosqlite') if name in sys.modules], 'none')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["none"]
