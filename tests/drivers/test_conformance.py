"""The shipped suite over every store of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.postgres.url import read_url
from onward.drivers.sqlite.driver import SQLiteStore
from onward.testing.conformance import *  # noqa: F403
from tests.postgres_server import POSTGRES_SERVERS

HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "sqlite", *POSTGRES_SERVERS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in POSTGRES_SERVERS:
        emptied: str = request.getfixturevalue("emptied_postgres")(request.param)
        return emptied
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}[request.param]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(url: str, clock: FakeClock) -> Iterator[Store]:
    """As ``connect`` makes it; but where there is a poll behind the wakes, it is too rare to hide that one of them does not work."""
    if url.startswith("sqlite:"):
        store: Store = SQLiteStore(url.removeprefix("sqlite:///"), clock=clock, poll=HOUR)
    else:
        store = connect(url, clock=clock, migrate=True)
    yield store
    store.close()


@pytest.fixture
def reopen(url: str, clock: FakeClock) -> Callable[[], Store]:
    return lambda: connect(url, clock=clock)


@pytest.fixture
def raw(store: Any, url: str) -> Callable[[str, str, Any], None]:
    def write_in_memory(job_id: str, column: str, value: Any) -> None:
        store.overwrite(job_id, **{column: value})

    def write_in_sqlite(job_id: str, column: str, value: Any) -> None:
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        with connection:
            connection.execute(f"UPDATE onward_jobs SET {column} = ? WHERE id = ?", (value, job_id))
        connection.close()

    def write_in_postgres(job_id: str, column: str, value: Any) -> None:
        with psycopg.connect(read_url(url)[0], autocommit=True) as connection:
            table = sql.Identifier(store.schema, "jobs")
            try:
                connection.execute(sql.SQL("UPDATE {} SET {} = %s WHERE id = %s").format(table, sql.Identifier(column)), [value, job_id])
            except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.DatatypeMismatch) as error:
                pytest.skip(f"Postgres itself refuses such a row: {error.diag.message_primary}")

    return {"memory": write_in_memory, "sqlite": write_in_sqlite, "postgresql": write_in_postgres}[url.partition(":")[0]]
