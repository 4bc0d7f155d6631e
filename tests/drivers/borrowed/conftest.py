"""A store in a database, and callers who have connections of their own to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import conninfo

from onward.clock import SystemClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.postgres.url import read_url
from tests.drivers.borrowed import callers, django_callers, sqlalchemy_callers
from tests.drivers.borrowed.callers import Caller, Place

ON_SQLITE: dict[str, type[Caller]] = {
    "sqlite3": callers.SQLite3,
    "sqlite3, beginning by itself": callers.SQLite3ByItself,
    "aiosqlite": callers.AioSQLite,
    "SQLAlchemy Connection on SQLite": sqlalchemy_callers.SQLiteConnection,
    "SQLAlchemy Session on SQLite": sqlalchemy_callers.SQLiteSession,
    "SQLAlchemy AsyncConnection on aiosqlite": sqlalchemy_callers.SQLiteAsyncConnection,
    "SQLAlchemy AsyncSession on aiosqlite": sqlalchemy_callers.SQLiteAsyncSession,
    "Django on SQLite": django_callers.Django,
}
ON_POSTGRES: dict[str, type[Caller]] = {
    "psycopg": callers.Psycopg,
    "psycopg, awaited": callers.PsycopgAsync,
    "psycopg2": callers.Psycopg2,
    "asyncpg": callers.Asyncpg,
    "asyncpg's pool": callers.AsyncpgPool,
    "SQLAlchemy Connection on psycopg": sqlalchemy_callers.PsycopgConnection,
    "SQLAlchemy Session on psycopg": sqlalchemy_callers.PsycopgSession,
    "SQLAlchemy Session on psycopg2": sqlalchemy_callers.Psycopg2Session,
    "SQLAlchemy AsyncSession on psycopg": sqlalchemy_callers.PsycopgAsyncSession,
    "SQLAlchemy AsyncConnection on asyncpg": sqlalchemy_callers.AsyncpgConnection,
    "SQLAlchemy AsyncSession on asyncpg": sqlalchemy_callers.AsyncpgSession,
    "Django on Postgres": django_callers.Django,
}
OTHER_FORMS_ON_SQLITE: dict[str, type[Caller]] = {
    "SQLAlchemy scoped_session on SQLite": sqlalchemy_callers.SQLiteScopedSession,
    "Django's wrapper on SQLite": django_callers.DjangoWrapper,
}
OTHER_FORMS_ON_POSTGRES: dict[str, type[Caller]] = {
    "asyncpg in its transaction()": callers.AsyncpgInTransaction,
    "SQLAlchemy async_scoped_session on asyncpg": sqlalchemy_callers.AsyncpgScopedSession,
    "Django's wrapper on Postgres": django_callers.DjangoWrapper,
}
KINDS = {**ON_SQLITE, **ON_POSTGRES, **OTHER_FORMS_ON_SQLITE, **OTHER_FORMS_ON_POSTGRES}


class Database:
    """Where a store and its callers meet."""

    def __init__(self, url: str, place: Place) -> None:
        self.url = url
        self.place = place
        self._opened: list[Caller] = []
        self.store: Store = connect(url, clock=SystemClock(), migrate=True)
        self.store.open()

    def caller(self, kind: type[Caller], **options: Any) -> Caller:
        self._opened.append(kind(self.place, **options))
        return self._opened[-1]

    def autocommit_caller(self, kind: type[Caller]) -> Caller:
        self._opened.append(kind.autocommit(self.place))
        return self._opened[-1]

    def close(self) -> None:
        for caller in self._opened:
            caller.close()
        self.store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "app.db"
    database = Database(f"sqlite:///{path}?timeout=200ms", str(path))
    with database.store.transaction() as connection:
        connection.execute("CREATE TABLE sales (number INTEGER)")
    yield database
    database.close()


@pytest.fixture
def postgres_here(emptied_postgres: Callable[[str], str]) -> Iterator[Database]:
    url = emptied_postgres("postgres")
    database = Database(url, conninfo.conninfo_to_dict(read_url(url)[0]))
    with database.store.transaction() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.sales (number integer)")
        connection.execute("TRUNCATE public.sales")
    yield database
    database.close()


@pytest.fixture(params=[*ON_SQLITE, *ON_POSTGRES])
def kind(request: pytest.FixtureRequest) -> type[Caller]:
    return KINDS[request.param]


@pytest.fixture
def database(request: pytest.FixtureRequest, kind: type[Caller]) -> Database:
    """The database that this kind of caller is on."""
    name = request.node.callspec.params["kind"]
    made: Database = request.getfixturevalue("sqlite" if name in {**ON_SQLITE, **OTHER_FORMS_ON_SQLITE} else "postgres_here")
    return made


@pytest.fixture
def store(database: Database) -> Store:
    return database.store


@pytest.fixture
def caller(database: Database, kind: type[Caller]) -> Caller:
    return database.caller(kind)


@pytest.fixture(params=list(ON_POSTGRES))
def postgres_kind(request: pytest.FixtureRequest) -> type[Caller]:
    return ON_POSTGRES[request.param]
