"""What several files of these tests begin with; one that needs another store makes its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward.clock import FakeClock
from onward.drivers import connect
from onward.drivers.postgres.driver import PostgresStore


@pytest.fixture
def store(postgres_database: str) -> Iterator[PostgresStore]:
    """An empty store in Postgres, with a clock that a test moves."""
    store = connect(postgres_database, clock=FakeClock(), migrate=True)
    assert isinstance(store, PostgresStore)
    store.open()
    yield store
    store.close()
