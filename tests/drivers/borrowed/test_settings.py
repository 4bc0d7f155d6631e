"""Row factories, cursors and converters belong to the application: they change nothing for a job, and stay as they are."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import asyncpg
import psycopg
import psycopg2.extensions
import psycopg2.extras
import pytest
from psycopg.adapt import Loader
from psycopg.rows import dict_row

from onward.errors import NoTransaction, TransactionOpen
from onward.inspection import JobFilter
from onward.status import Status
from onward.testing.factories import make_new_job
from tests.drivers.borrowed.callers import Asyncpg, Caller, Psycopg, Psycopg2, PsycopgAsync, asyncpg_words
from tests.drivers.borrowed.conftest import Database


class Shouting(Loader):
    """What an application may make of a text."""

    def load(self, data: Any) -> str:
        return bytes(data).decode().upper()


class Counting(Loader):
    """What an application may make of a number."""

    def load(self, data: Any) -> Decimal:
        return Decimal(bytes(data).decode())


class Stubborn(asyncpg.Record):
    """A row that an application reads in a way of its own."""

    def __getitem__(self, index: Any) -> Any:
        return f"not {index}"

    def __iter__(self) -> Any:
        return iter(())


def use_every_verb(database: Database, caller: Caller) -> None:
    """A job goes in, is read, cancelled and queued again."""
    asked = make_new_job(key="k", expires=timedelta(days=1))
    caller.begin()
    assert caller.enqueue(database.store, asked)[0].is_new
    assert caller.enqueue(database.store, make_new_job(key="k"))[0].id == asked.id
    assert caller.verb(database.store, "get", asked.id).type == "work"
    assert caller.verb(database.store, "cancel", asked.id).status is Status.CANCELLED
    assert caller.verb(database.store, "retry", asked.id).status is Status.QUEUED
    caller.commit()
    assert database.store.get(asked.id).status is Status.QUEUED


@pytest.mark.parametrize("kind", [Psycopg, PsycopgAsync])
def test_psycopgs_rows_cursors_and_loaders_stay_the_applications(postgres_here: Database, kind: type[Caller]) -> None:
    """A job that is read as a dictionary, in capitals, would be none."""
    factory = psycopg.AsyncClientCursor if kind.is_awaited else psycopg.ClientCursor
    caller = postgres_here.caller(kind, row_factory=dict_row, cursor_factory=factory)
    for name in ("text", "varchar"):
        caller.connection.adapters.register_loader(name, Shouting)
    for name in ("int4", "int8", "bool"):
        caller.connection.adapters.register_loader(name, Counting)
    use_every_verb(postgres_here, caller)
    row = caller.call(caller.call(caller.connection.execute("SELECT 'a'::text AS text, 1::int8 AS number")).fetchone())
    assert row == {"text": "A", "number": Decimal(1)}


def test_statements_are_prepared_only_where_the_application_prepares(postgres_here: Database) -> None:
    """A pooler may not keep prepared statements; who uses cursors that never prepare may be behind one."""
    for options, is_prepared in (({}, True), ({"cursor_factory": psycopg.ClientCursor}, False), ({"prepare_threshold": None}, False)):
        caller = postgres_here.caller(Psycopg, **options)
        for _ in range(8):
            caller.enqueue(postgres_here.store, make_new_job())
        row = caller.connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        assert (row[0] > 0) is is_prepared
        caller.rollback()


def test_psycopg_in_a_pipeline_carries_jobs(postgres_here: Database) -> None:
    """There, several statements cannot be one text, and answers come later."""
    caller = postgres_here.caller(Psycopg)
    with caller.connection.pipeline():
        caller.run("INSERT INTO sales VALUES (1)")
        caller.enqueue(postgres_here.store, make_new_job(key="k"))
        assert not caller.enqueue(postgres_here.store, make_new_job(key="k"))[0].is_new
        caller.commit()
    assert postgres_here.store.count(JobFilter()) == 1


def test_an_autocommit_connection_carries_jobs_inside_its_transaction(postgres_here: Database) -> None:
    """What counts is the transaction, not the setting."""
    for kind in (Psycopg, Psycopg2):
        caller = postgres_here.autocommit_caller(kind)
        caller.run("BEGIN")
        caller.enqueue(postgres_here.store, make_new_job())
        caller.run("COMMIT")
        with pytest.raises(NoTransaction):
            caller.enqueue(postgres_here.store, make_new_job())
    caller = postgres_here.autocommit_caller(Psycopg)
    with caller.connection.transaction():
        caller.enqueue(postgres_here.store, make_new_job())
    assert postgres_here.store.count(JobFilter()) == 3


def test_psycopg2s_cursors_and_converters_stay_the_applications(postgres_here: Database) -> None:
    """Its converters are registered on a connection, or for all of them."""
    caller = postgres_here.caller(Psycopg2)
    caller.connection.cursor_factory = psycopg2.extras.RealDictCursor
    shouting = psycopg2.extensions.new_type((25,), "SHOUTING", lambda value, cursor: value and value.upper())
    counting = psycopg2.extensions.new_type((16, 20, 23), "COUNTING", lambda value, cursor: value and f"number {value}")
    for converter in (shouting, counting):
        psycopg2.extensions.register_type(converter, caller.connection)
    use_every_verb(postgres_here, caller)
    with caller.connection.cursor() as cursor:
        cursor.execute("SELECT 'a'::text AS text, 1::int8 AS number")
        assert cursor.fetchone() == {"text": "A", "number": "number 1"}


def test_asyncpgs_records_stay_the_applications(postgres_here: Database) -> None:
    """A connection may have a class of its own for rows."""

    class Own(Asyncpg):
        async def open(self) -> None:
            self.connection = await asyncpg.connect(**asyncpg_words(self.place), record_class=Stubborn)

    caller = postgres_here.caller(Own)
    use_every_verb(postgres_here, caller)
    assert type(caller.call(caller.connection.fetchrow("SELECT 1"))) is Stubborn


def test_subclasses_of_connections_count(postgres_here: Database) -> None:
    """Applications and tracers derive from a library's connection."""

    class Traced(psycopg.Connection[Any]):
        pass

    for connection in (
        Traced.connect(**postgres_here.place),  # type: ignore[arg-type]
        psycopg2.connect(**postgres_here.place, connection_factory=psycopg2.extras.LoggingConnection),
    ):
        if isinstance(connection, psycopg2.extras.LoggingConnection):
            connection.initialize(StringIO())
        postgres_here.store.within(connection).enqueue([make_new_job()])
        connection.commit()
        connection.close()
    assert postgres_here.store.count(JobFilter()) == 2


def test_the_stores_own_transaction_carries_jobs_until_its_end(postgres_here: Database) -> None:
    """It is a connection of psycopg with a limit; afterwards it is of no use, and says so."""
    with postgres_here.store.transaction() as connection:
        connection.execute("INSERT INTO sales VALUES (1)")
        postgres_here.store.within(connection).enqueue([make_new_job()])
    assert postgres_here.store.count(JobFilter()) == 1
    with pytest.raises((NoTransaction, TransactionOpen), match="has ended"):
        postgres_here.store.within(connection)


def test_a_cancelled_enqueue_leaves_a_transaction_that_can_roll_back(postgres_here: Database) -> None:
    """A web request may be given up while it waits for a key."""

    async def story() -> None:
        async with (
            await psycopg.AsyncConnection.connect(**postgres_here.place) as first,  # type: ignore[arg-type]
            await psycopg.AsyncConnection.connect(**postgres_here.place) as second,  # type: ignore[arg-type]
        ):
            await postgres_here.store.within_async(first).enqueue([make_new_job(key="k")])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await postgres_here.store.within_async(second).enqueue([make_new_job(key="k")])
            await second.rollback()
            await first.rollback()
            await postgres_here.store.within_async(second).enqueue([make_new_job(key="k")])
            await second.commit()

    asyncio.run(story())
    assert postgres_here.store.count(JobFilter()) == 1
