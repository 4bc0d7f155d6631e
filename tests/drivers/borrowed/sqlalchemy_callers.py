"""Applications on SQLAlchemy 2."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.drivers.borrowed.callers import Caller, Place, asyncpg_words


class OnSQLAlchemy(Caller):
    """What is common: an engine, and a connection or session made of it."""

    begins_by_itself = True
    serialization_failure = OperationalError
    dialect: ClassVar[str]

    @classmethod
    def autocommit(cls, place: Place) -> Caller:
        return cls(place, isolation_level="AUTOCOMMIT")

    def engine(self) -> Any:
        make = create_async_engine if self.is_awaited else create_engine
        if isinstance(self.place, str):
            return make(f"{self.dialect}:///{self.place}", **self.options)
        words = asyncpg_words(self.place) if "asyncpg" in self.dialect else dict(self.place)
        return make(f"{self.dialect}://", connect_args=words, **self.options)

    def open(self) -> Any:
        self._engine = self.engine()
        return self.connect()

    def connect(self) -> Any:
        """Make the connection or session."""

    def begin(self) -> None:
        """The library does it."""

    def commit(self) -> None:
        self.call(self.connection.commit())

    def rollback(self) -> None:
        self.call(self.connection.rollback())

    def run(self, sql: str) -> None:
        self.call(self.connection.execute(text(sql)))

    def savepoint(self) -> None:
        self._nested = self.connection.begin_nested()
        if self.is_awaited:
            self.call(self._nested.start())

    def undo_savepoint(self) -> None:
        self.call(self._nested.rollback())


class OnConnection(OnSQLAlchemy):
    def connect(self) -> None:
        self.connection = self._engine.connect()

    def shut(self) -> None:
        self.connection.close()
        self._engine.dispose()


class OnSession(OnConnection):
    def connect(self) -> None:
        self.connection = Session(self._engine)


class OnScopedSession(OnConnection):
    def connect(self) -> None:
        self.connection = scoped_session(sessionmaker(self._engine))


class OnAsyncConnection(OnSQLAlchemy):
    is_awaited = True

    async def connect(self) -> None:
        self.connection = await self._engine.connect()

    async def shut(self) -> None:
        await self.connection.close()
        await self._engine.dispose()


class OnAsyncSession(OnAsyncConnection):
    async def connect(self) -> None:
        self.connection = AsyncSession(self._engine)


class OnAsyncScopedSession(OnAsyncConnection):
    async def connect(self) -> None:
        self.connection = async_scoped_session(async_sessionmaker(self._engine), lambda: 1)


class SQLiteConnection(OnConnection):
    dialect = "sqlite"


class SQLiteSession(OnSession):
    dialect = "sqlite"


class SQLiteScopedSession(OnScopedSession):
    dialect = "sqlite"


class SQLiteAsyncConnection(OnAsyncConnection):
    dialect = "sqlite+aiosqlite"


class SQLiteAsyncSession(OnAsyncSession):
    dialect = "sqlite+aiosqlite"


class PsycopgConnection(OnConnection):
    dialect = "postgresql+psycopg"


class PsycopgSession(OnSession):
    dialect = "postgresql+psycopg"


class Psycopg2Session(OnSession):
    dialect = "postgresql+psycopg2"


class PsycopgAsyncSession(OnAsyncSession):
    dialect = "postgresql+psycopg"


class AsyncpgConnection(OnAsyncConnection):
    dialect = "postgresql+asyncpg"
    serialization_failure = DBAPIError


class AsyncpgSession(OnAsyncSession):
    dialect = "postgresql+asyncpg"
    serialization_failure = DBAPIError


class AsyncpgScopedSession(OnAsyncScopedSession):
    dialect = "postgresql+asyncpg"
    serialization_failure = DBAPIError
