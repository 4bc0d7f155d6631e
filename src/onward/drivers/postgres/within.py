"""Jobs on a caller's Postgres connection: how psycopg, psycopg2 and asyncpg each run a statement, untouched by the caller's settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus
from psycopg.rows import tuple_row
from psycopg.types.bool import BoolLoader
from psycopg.types.numeric import IntLoader
from psycopg.types.string import TextLoader

from onward.drivers.postgres.link import IDLE, IN_TRANSACTION, UNKNOWN, UTF8, Joined, PostgresLink, as_dollar, as_pyformat
from onward.drivers.postgres.transaction import GuardedConnection
from onward.drivers.sql.joined import bridges_over
from onward.drivers.sql.statements import Many, Row, Statement, as_json

__all__ = ["BRIDGES", "Joined"]

# By their numbers: by name, each would be looked up first.
_LOADERS: dict[int, Any] = {16: BoolLoader, 20: IntLoader, 21: IntLoader, 23: IntLoader, 25: TextLoader}


def parameters_of(wanted: Statement | Many) -> Mapping[str, Any]:
    """What a statement is given."""
    return {"rows": as_json(wanted.parameters)} if isinstance(wanted, Many) else wanted.parameters


class _PsycopgLink(PostgresLink):
    """What both colours of psycopg have in common."""

    advice = "use connection.transaction(), or connect without autocommit"

    def check(self) -> None:
        if isinstance(self.connection, GuardedConnection):
            self.connection.check()
        self.check_state(self.connection.info.transaction_status, is_autocommit=self.connection.autocommit)

    def calls(self, wanted: Statement | Many) -> list[tuple[str, Mapping[str, Any] | None]]:
        """What is executed one after the other. Without parameters several statements are one text, in which no % is doubled."""
        parameters, texts = parameters_of(wanted), self.texts(wanted.name)
        if parameters:
            return [(as_pyformat(text), parameters) for text in texts]
        if self.connection.pgconn.pipeline_status != PipelineStatus.OFF:
            return [(text, None) for text in texts]
        return [("; ".join(texts), None)]

    @property
    def encoding(self) -> str:
        return self.connection.info.parameter_status("client_encoding") or UTF8

    def is_late(self, wanted: Statement | Many) -> bool:
        """Whether the client must ask what a statement has set: in a pipeline the server says it only then."""
        return wanted.name == "client_encoding" and self.connection.pgconn.pipeline_status != PipelineStatus.OFF

    @property
    def prepare(self) -> bool | None:
        """False for an application whose own cursors never prepare statements: it may be behind a pooler that cannot keep them."""
        kinds = (psycopg.ClientCursor, psycopg.AsyncClientCursor)
        return False if issubclass(self.connection.cursor_factory, kinds) else None


class PsycopgLink(_PsycopgLink):
    """On a ``psycopg.Connection``."""

    colour = "sync"

    def execute(self, wanted: Statement | Many) -> list[Row]:
        cursor: psycopg.Cursor[Row] = psycopg.Cursor(self.connection, row_factory=tuple_row)
        convert_plainly(cursor)
        for text, parameters in self.calls(wanted):
            cursor.execute(text, parameters, prepare=self.prepare)
        if self.is_late(wanted):
            with self.connection.pipeline():  # one inside another begins with a sync
                return []
        to_last_result(cursor)
        with allowing_no_rows():
            return cursor.fetchall()
        return []


class AsyncPsycopgLink(_PsycopgLink):
    """On a ``psycopg.AsyncConnection``."""

    colour = "async"

    async def execute(self, wanted: Statement | Many) -> list[Row]:
        cursor: psycopg.AsyncCursor[Row] = psycopg.AsyncCursor(self.connection, row_factory=tuple_row)
        convert_plainly(cursor)
        for text, parameters in self.calls(wanted):
            await cursor.execute(text, parameters, prepare=self.prepare)
        if self.is_late(wanted):
            async with self.connection.pipeline():
                return []
        to_last_result(cursor)
        with allowing_no_rows():
            return await cursor.fetchall()
        return []


class Psycopg2Link(PostgresLink):
    """On a ``psycopg2`` connection."""

    colour = "sync"
    advice = "set connection.autocommit = False"

    def check(self) -> None:
        state = UNKNOWN if self.connection.closed else self.connection.get_transaction_status()
        self.check_state(state, is_autocommit=self.connection.autocommit)

    @property
    def encoding(self) -> str:
        return self.connection.get_parameter_status("client_encoding") or UTF8

    def execute(self, wanted: Statement | Many) -> list[Row]:
        """Texts go and come as bytes: psycopg2 would roll the transaction back to change the encoding that it knows."""
        library = sys.modules["psycopg2.extensions"]
        cursor = library.cursor(self.connection)
        for kind in (library.BYTES, library.INTEGER, library.LONGINTEGER, library.BOOLEAN):
            library.register_type(kind, cursor)
        parameters, texts = parameters_of(wanted), self.texts(wanted.name)
        if parameters:
            sent = {name: library.QuotedString(value.encode()) if isinstance(value, str) else value for name, value in parameters.items()}
            cursor.execute(as_pyformat(texts[0]), sent)
        else:
            cursor.execute("; ".join(texts))
        rows = [] if cursor.description is None else cursor.fetchall()
        return [tuple(value.decode() if isinstance(value, bytes) else value for value in row) for row in rows]


class AsyncpgLink(PostgresLink):
    """On an ``asyncpg`` connection, or one that a pool has lent."""

    colour = "async"
    advice = "use 'async with connection.transaction()'"

    def check(self) -> None:
        if self.connection.is_closed():
            self.check_state(UNKNOWN, is_autocommit=True)
        self.check_state(IN_TRANSACTION if self.connection.is_in_transaction() else IDLE, is_autocommit=True)

    @property
    def encoding(self) -> str:
        return str(self.connection.get_settings().client_encoding)

    async def execute(self, wanted: Statement | Many) -> list[Row]:
        record = sys.modules["asyncpg"].Record
        parameters, texts = parameters_of(wanted), self.texts(wanted.name)
        for text in texts[:-1]:
            await self.connection.execute(text)
        text, names = as_dollar(texts[-1])
        rows = await self.connection.fetch(text, *(parameters[name] for name in names), record_class=record)
        return [tuple(row) for row in rows]


BRIDGES = bridges_over(
    {
        "psycopg.Connection": PsycopgLink,
        "psycopg.AsyncConnection": AsyncPsycopgLink,
        "psycopg2.extensions.connection": Psycopg2Link,
        "asyncpg.connection.Connection": AsyncpgLink,
        "asyncpg.pool.PoolConnectionProxy": AsyncpgLink,
    }
)


def convert_plainly(cursor: psycopg.Cursor[Row] | psycopg.AsyncCursor[Row]) -> None:
    """Make a cursor convert as ours do: the application may have loaders of its own for any type."""
    for oid, loader in _LOADERS.items():
        cursor.adapters.register_loader(oid, loader)


def to_last_result(cursor: Any) -> None:
    """Move on to what the last of several statements gave."""
    while cursor.nextset():
        continue


@contextmanager
def allowing_no_rows() -> Iterator[None]:
    """Around a fetch behind a statement that may give no rows at all: in a pipeline, psycopg cannot say so before."""
    try:
        yield
    except psycopg.ProgrammingError as error:
        if error.sqlstate is not None:
            raise
