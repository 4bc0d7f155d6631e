"""The shipped suite over every store of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.sqlite.driver import SQLiteStore
from onward.testing.conformance import *  # noqa: F403

HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}[request.param]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(url: str, clock: FakeClock) -> Iterator[Store]:
    """As ``connect`` makes it; but where there is a poll behind the wakes, it is too rare to hide that one of them does not work."""
    store = connect(url, clock=clock) if url == "memory://" else SQLiteStore(url.removeprefix("sqlite:///"), clock=clock, poll=HOUR)
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

    return write_in_memory if url == "memory://" else write_in_sqlite
