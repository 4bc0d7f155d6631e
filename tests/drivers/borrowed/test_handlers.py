"""``ctx.transaction(connection)`` in a worker, on connections of libraries: one effect, and none without the lease."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import transaction
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from onward.app import Onward
from onward.context import JobContext
from onward.definition import JobDefinition, define_job
from onward.errors import LeaseLost, NoTransaction
from onward.inspection import JobFilter
from onward.retry import RetryPolicy
from onward.status import Status
from tests.drivers.borrowed.callers import asyncpg_words
from tests.drivers.borrowed.conftest import Database
from tests.drivers.borrowed.django_callers import Django
from tests.drivers.borrowed.test_together import sales

SELL = "INSERT INTO sales VALUES (1)"
child = define_job("child", lambda payload: None, payload=int, queue="later")

# Each opens a transaction that commits when its block ends well, and gives the connection and a way to sell something.


@contextmanager
def session_on(database: Database) -> Iterator[Any]:
    if isinstance(database.place, str):
        engine = create_engine(f"sqlite:///{database.place}")
    else:
        engine = create_engine("postgresql+psycopg://", connect_args=dict(database.place))
    try:
        with Session(engine) as session, session.begin():
            yield session, lambda: session.execute(text(SELL))
    finally:
        engine.dispose()


@contextmanager
def psycopg_on(database: Database) -> Iterator[Any]:
    with psycopg.connect(**database.place) as connection:  # type: ignore[arg-type]
        yield connection, lambda: connection.execute(SELL)


@contextmanager
def django_on(database: Database) -> Iterator[Any]:
    caller = Django(database.place)
    try:
        with transaction.atomic(using=caller.alias):
            yield caller.connection, lambda: caller.run(SELL)
    finally:
        caller.close()


@asynccontextmanager
async def async_session_on(database: Database) -> AsyncIterator[Any]:
    if isinstance(database.place, str):
        engine = create_async_engine(f"sqlite+aiosqlite:///{database.place}")
    else:
        engine = create_async_engine("postgresql+asyncpg://", connect_args=asyncpg_words(database.place))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session, lambda: session.execute(text(SELL))
    finally:
        await engine.dispose()


@asynccontextmanager
async def asyncpg_on(database: Database) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(**asyncpg_words(database.place))
    try:
        async with connection.transaction():
            yield connection, lambda: connection.execute(SELL)
    finally:
        await connection.close()


Before = Callable[[JobContext], None]


def selling(shop: Shop, before: Before) -> Any:
    def handler(payload: int, ctx: JobContext) -> None:
        before(ctx)
        try:
            with shop.opens(shop.database) as (connection, sell), ctx.transaction(connection):
                sell()
                ctx.enqueue(child, 1)
        except LeaseLost as error:
            shop.told.append(error)
            raise

    return handler


def selling_awaited(shop: Shop, before: Before) -> Any:
    async def handler(payload: int, ctx: JobContext) -> None:
        before(ctx)
        try:
            async with shop.opens(shop.database) as (connection, sell), ctx.transaction(connection):
                await sell()
                ctx.enqueue(child, 1)
        except LeaseLost as error:
            shop.told.append(error)
            raise

    return handler


WAYS = {
    "SQLAlchemy Session on SQLite": ("sqlite", selling, session_on),
    "SQLAlchemy AsyncSession on aiosqlite": ("sqlite", selling_awaited, async_session_on),
    "Django on SQLite": ("sqlite", selling, django_on),
    "SQLAlchemy Session on psycopg": ("postgres_here", selling, session_on),
    "SQLAlchemy AsyncSession on asyncpg": ("postgres_here", selling_awaited, async_session_on),
    "psycopg": ("postgres_here", selling, psycopg_on),
    "asyncpg": ("postgres_here", selling_awaited, asyncpg_on),
    "Django on Postgres": ("postgres_here", selling, django_on),
}


class Shop:
    """An application whose one job sells, on a connection of its own."""

    def __init__(self, database: Database, make: Any, opens: Any) -> None:
        self.database = database
        self.opens = opens
        self.told: list[LeaseLost] = []
        self._make = make

    def work(self, before: Before = lambda ctx: None) -> Any:
        """Sell once; gives the job as it is then."""
        job: JobDefinition[int] = define_job("sell", self._make(self, before), retry=RetryPolicy(max_attempts=1))
        app = Onward(store=self.database.store, jobs=[job, child])
        handle = app.enqueue(job, 1)
        app.worker(drain=True, queues=["default"]).run()
        return app.get(handle.id)


@pytest.fixture(params=list(WAYS))
def shop(request: pytest.FixtureRequest) -> Shop:
    where, make, opens = WAYS[request.param]
    return Shop(request.getfixturevalue(where), make, opens)


def children(shop: Shop) -> int:
    return shop.database.store.count(JobFilter(types=("child",)))


def test_writes_children_and_completion_are_one_commit(shop: Shop) -> None:
    """The effect happens once, and the job is done by the same commit."""
    assert shop.work().status is Status.COMPLETED
    assert (sales(shop.database.store), children(shop)) == (1, 1)


def test_a_lost_lease_stops_before_anything_is_written(shop: Shop) -> None:
    """Another worker may be selling already: only the second run, whose lease holds, has an effect."""
    runs: list[int] = []

    def lose(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        if len(runs) == 1:
            assert ctx.job.lease_owner is not None
            shop.database.store.recover(ctx.job.lease_owner, [])

    assert shop.work(lose).status is Status.COMPLETED
    assert (len(runs), len(shop.told)) == (2, 1)
    assert (sales(shop.database.store), children(shop)) == (1, 1)


def test_the_wrong_way_to_open_it_names_the_right_one(postgres_here: Database) -> None:
    """A connection of asyncpg is no context manager, so nothing about it shows that its calls are awaited."""

    async def handler(payload: int, ctx: JobContext) -> None:
        async with asyncpg_on(postgres_here) as (connection, _):
            with ctx.transaction(connection):
                pass

    job = define_job("wrong", handler, payload=int, retry=RetryPolicy(max_attempts=1))
    app = Onward(store=postgres_here.store, jobs=[job])
    handle = app.enqueue(job, 1)
    app.worker(drain=True).run()
    found = app.get(handle.id)
    assert found.status is Status.DEAD_LETTER
    assert NoTransaction.__name__ in (found.error or "")
    assert "async with ctx.transaction(...)" in (found.error or "")
