"""Applications with a connection of their own, one for each library: what they do to begin, commit and roll back, and a job in between.

Every caller is synchronous from outside; one whose library is awaited brings its own event loop.
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import aiosqlite
import asyncpg
import psycopg
import psycopg2.errors

from onward.driver import Store
from onward.jobs import Accepted, NewJob

Place = str | Mapping[str, Any]
"""The path of a SQLite file, or what leads to a Postgres database in libpq's words."""


class Caller(ABC):
    """One connection of an application. ``begin`` is not called twice without an end."""

    is_awaited: ClassVar[bool] = False
    begins_by_itself: ClassVar[bool] = False
    """True when the library begins a transaction before the first statement, without being asked."""
    serialization_failure: ClassVar[type[Exception]] = Exception
    """What the library raises when a transaction met another one; a loop of tries catches it."""
    connection: Any
    """What is given as ``within=``."""

    def __init__(self, place: Place, **options: Any) -> None:
        self.place = place
        self.options = options
        if self.is_awaited:
            self._runner = asyncio.Runner()
        self.call(self.open())

    @classmethod
    def autocommit(cls, place: Place) -> Caller:
        """A caller whose connection commits every statement by itself."""
        return cls(place)

    @abstractmethod
    def open(self) -> Any: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def run(self, sql: str) -> None: ...

    @abstractmethod
    def shut(self) -> Any:
        """Close the connection."""

    def savepoint(self) -> None:
        self.run("SAVEPOINT theirs")

    def undo_savepoint(self) -> None:
        self.run("ROLLBACK TO SAVEPOINT theirs")

    def failing(self, sql: str) -> None:
        """Run a statement that fails, and go on as an application does that catches its error."""
        with suppress(Exception):
            self.run(sql)

    def call(self, answer: Any) -> Any:
        """Wait for what an awaited library answered."""
        if not self.is_awaited:
            return answer

        async def waiting() -> Any:
            return await answer

        return self._runner.run(waiting())

    def close(self) -> None:
        self.call(self.shut())
        if self.is_awaited:
            self._runner.close()

    # -- Onward ------------------------------------------------------------------------------------------------------

    def within(self, store: Store) -> Any:
        return store.within_async(self.connection) if self.is_awaited else store.within(self.connection)

    def verb(self, store: Store, name: str, *arguments: Any) -> Any:
        """Call one verb of ``within``."""

        def do() -> Any:
            return getattr(self.within(store), name)(*arguments)

        async def do_awaited() -> Any:
            return await do()

        return self._runner.run(do_awaited()) if self.is_awaited else do()

    def enqueue(self, store: Store, *jobs: NewJob) -> list[Accepted]:
        accepted: list[Accepted] = self.verb(store, "enqueue", jobs)
        return accepted


class ByStatements(Caller):
    """A driver's own connection, whose transactions are begun and ended by statements."""

    beginning: ClassVar[str] = "BEGIN"

    def begin(self) -> None:
        self.run(self.beginning)

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        self.run("ROLLBACK")

    def run(self, sql: str) -> None:
        self.call(self.connection.execute(sql))

    def shut(self) -> Any:
        return self.connection.close()


class SQLite3(ByStatements):
    beginning = "BEGIN IMMEDIATE"

    def open(self) -> None:
        self.connection = sqlite3.connect(str(self.place), timeout=5, isolation_level=None)


class AioSQLite(ByStatements):
    is_awaited = True
    beginning = "BEGIN IMMEDIATE"

    async def open(self) -> None:
        self.connection = await aiosqlite.connect(str(self.place), timeout=5, isolation_level=None)


class BeginningByThemselves(Caller):
    """A driver's own connection in the mode that Python's DB-API asks for."""

    begins_by_itself = True

    def begin(self) -> None:
        """The library does it."""

    def commit(self) -> None:
        self.call(self.connection.commit())

    def rollback(self) -> None:
        self.call(self.connection.rollback())

    def run(self, sql: str) -> None:
        self.call(self.connection.execute(sql))

    def shut(self) -> Any:
        return self.connection.close()

    @classmethod
    def autocommit(cls, place: Place) -> Caller:
        return cls(place, autocommit=True)


class SQLite3ByItself(BeginningByThemselves):
    def open(self) -> None:
        level = None if self.options else ""
        self.connection = sqlite3.connect(str(self.place), timeout=5, isolation_level=level)


class Psycopg(BeginningByThemselves):
    serialization_failure = psycopg.errors.SerializationFailure

    def open(self) -> None:
        self.connection = psycopg.connect(**self.place, **self.options)  # type: ignore[arg-type]


class PsycopgAsync(BeginningByThemselves):
    is_awaited = True
    serialization_failure = psycopg.errors.SerializationFailure

    async def open(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(**self.place, **self.options)  # type: ignore[arg-type]


class Psycopg2(BeginningByThemselves):
    serialization_failure = psycopg2.errors.SerializationFailure

    def open(self) -> None:
        self.connection = psycopg2.connect(**self.place)  # type: ignore[arg-type]
        self.connection.autocommit = bool(self.options)

    def run(self, sql: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)


class Asyncpg(ByStatements):
    is_awaited = True
    serialization_failure = asyncpg.SerializationError

    async def open(self) -> None:
        self.connection = await asyncpg.connect(**asyncpg_words(self.place))


class AsyncpgInTransaction(Asyncpg):
    """As its documentation has it: ``async with connection.transaction()``."""

    def begin(self) -> None:
        self._transaction = self.connection.transaction()
        self.call(self._transaction.start())

    def commit(self) -> None:
        self.call(self._transaction.commit())

    def rollback(self) -> None:
        self.call(self._transaction.rollback())


class AsyncpgPool(ByStatements):
    is_awaited = True
    serialization_failure = asyncpg.SerializationError

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(**asyncpg_words(self.place), min_size=1, max_size=1)
        self.connection = await self._pool.acquire()

    async def shut(self) -> None:
        await self._pool.release(self.connection)
        await self._pool.close()


def asyncpg_words(place: Place) -> dict[str, Any]:
    """What leads to a Postgres database in asyncpg's words."""
    assert not isinstance(place, str)
    return {("database" if name == "dbname" else name): int(value) if name == "port" else value for name, value in place.items()}
