"""What SQLAlchemy and Django look after, they go on looking after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from onward.clock import SystemClock
from onward.drivers import connect
from onward.errors import NoTransaction
from onward.inspection import JobFilter
from onward.testing.factories import make_new_job
from tests.drivers.borrowed.conftest import Database
from tests.drivers.borrowed.django_callers import Django


class Base(DeclarativeBase):
    pass


class Sale(Base):
    __tablename__ = "orm_sales"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(unique=True)


@pytest.fixture
def engine(sqlite: Database) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{sqlite.place}")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM orm_sales")).scalar_one())


def test_objects_that_are_not_flushed_yet_commit_with_the_job(sqlite: Database, engine: Engine) -> None:
    """The session flushes them when it commits, as it always does."""
    with Session(engine) as session:
        session.add(Sale(number=1))
        sqlite.store.within(session).enqueue([make_new_job()])
        assert session.new
        session.commit()
        session.add(Sale(number=2))
        sqlite.store.within(session).enqueue([make_new_job()])
        session.rollback()
    assert (count(engine), sqlite.store.count(JobFilter())) == (1, 1)


def test_a_session_that_commits_in_between_goes_on_with_its_next_transaction(sqlite: Database, engine: Engine) -> None:
    """After a commit its connection is the pool's again: a job on that one would belong to whoever takes it next."""
    with Session(engine) as session:
        within = sqlite.store.within(session)
        within.enqueue([make_new_job()])
        session.commit()
        within.enqueue([make_new_job()])
        session.rollback()
        assert sqlite.store.count(JobFilter()) == 1
        within.enqueue([make_new_job()])
        session.commit()
    assert sqlite.store.count(JobFilter()) == 2


def test_blocks_of_begin_carry_jobs(sqlite: Database, engine: Engine) -> None:
    """They end as they would without us; so do blocks inside blocks."""
    with Session(engine) as session, session.begin():
        sqlite.store.within(session).enqueue([make_new_job()])
        with session.begin_nested() as nested:
            sqlite.store.within(session).enqueue([make_new_job()])
            nested.rollback()
    with engine.begin() as connection:
        sqlite.store.within(connection).enqueue([make_new_job()])
    with suppress(ZeroDivisionError), engine.begin() as connection:
        sqlite.store.within(connection).enqueue([make_new_job()])
        raise ZeroDivisionError
    assert sqlite.store.count(JobFilter()) == 2


def test_an_engine_that_begins_by_an_event_carries_jobs(sqlite: Database) -> None:
    """The way that SQLAlchemy recommends for SQLite: no transaction of the driver's, and BEGIN IMMEDIATE of one's own."""
    engine = create_engine(f"sqlite:///{sqlite.place}")
    event.listen(engine, "connect", lambda connection, record: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with Session(engine) as session:
        sqlite.store.within(session).enqueue([make_new_job()])
        session.commit()
    with engine.connect() as connection:
        sqlite.store.within(connection).enqueue([make_new_job()])
        connection.rollback()
    assert sqlite.store.count(JobFilter()) == 1
    engine.dispose()


def test_a_new_file_gets_its_tables_before_a_session_has_written(tmp_path: Path) -> None:
    """Once it has, it holds the lock that making tables needs."""
    fresh = connect(f"sqlite:///{tmp_path}/fresh.db", clock=SystemClock())
    engine = create_engine(f"sqlite:///{tmp_path}/fresh.db")
    with Session(engine) as session:
        fresh.within(session).enqueue([make_new_job()])
        session.commit()
    assert fresh.count(JobFilter()) == 1
    engine.dispose()
    fresh.close()


def test_a_session_that_must_roll_back_says_so(sqlite: Database, engine: Engine) -> None:
    """A failed flush has ended its transaction."""
    with Session(engine) as session:
        session.add_all([Sale(number=1), Sale(number=1)])
        with pytest.raises(IntegrityError):
            session.flush()
        session.rollback()
        sqlite.store.within(session).enqueue([make_new_job()])
        session.commit()
    with Session(engine, autobegin=False) as session, pytest.raises(NoTransaction, match="begin"):
        sqlite.store.within(session)
    assert sqlite.store.count(JobFilter()) == 1


def test_a_connection_that_is_not_open_says_so(sqlite: Database, engine: Engine) -> None:
    """Closed, or never begun."""
    connection = engine.connect()
    connection.close()
    with pytest.raises(NoTransaction, match="closed"):
        sqlite.store.within(connection)

    async def story() -> None:
        awaited = create_async_engine(f"sqlite+aiosqlite:///{sqlite.place}")
        never: AsyncConnection = awaited.connect()
        with pytest.raises(NoTransaction, match="has not been started"):
            await sqlite.store.within_async(never).enqueue([make_new_job()])
        await awaited.dispose()

    asyncio.run(story())


@pytest.fixture(params=["sqlite", "postgres_here"])
def django(request: pytest.FixtureRequest) -> tuple[Database, Django]:
    database: Database = request.getfixturevalue(request.param)
    caller: Any = database.caller(Django)
    return database, caller


def test_atomic_blocks_inside_each_other_carry_jobs(django: tuple[Database, Django]) -> None:
    """An inner one that fails takes its job along, and no other."""
    database, caller = django
    with transaction.atomic(using=caller.alias):
        database.store.within(caller.connection).enqueue([make_new_job()])
        with suppress(ZeroDivisionError), transaction.atomic(using=caller.alias):
            database.store.within(caller.connection).enqueue([make_new_job()])
            raise ZeroDivisionError
        with transaction.atomic(using=caller.alias):
            database.store.within(caller.connection).enqueue([make_new_job()])
    assert database.store.count(JobFilter()) == 2


def test_outside_an_atomic_block_a_job_is_refused(django: tuple[Database, Django]) -> None:
    """Django commits there after every statement; also before its first one, when it has no connection yet."""
    database, caller = django
    for _ in range(2):
        with pytest.raises(NoTransaction, match=r"transaction\.atomic\(\)"):
            database.store.within(caller.connection)
        caller.run("SELECT 1")
    assert database.store.count(JobFilter()) == 0


def test_an_atomic_block_that_will_roll_back_takes_no_job(django: tuple[Database, Django]) -> None:
    """Django rolls it back at its end, whatever comes: the job would be gone without a word."""
    database, caller = django
    with transaction.atomic(using=caller.alias):
        transaction.set_rollback(True, using=caller.alias)
        with pytest.raises(NoTransaction, match="to be rolled back"):
            database.store.within(caller.connection)


def test_what_is_done_on_commit_sees_the_job(django: tuple[Database, Django]) -> None:
    """Django's own hooks run behind the commit, as ever."""
    database, caller = django
    seen: list[int] = []
    with transaction.atomic(using=caller.alias):
        transaction.on_commit(lambda: seen.append(database.store.count(JobFilter())), using=caller.alias)
        database.store.within(caller.connection).enqueue([make_new_job()])
    assert seen == [1]
