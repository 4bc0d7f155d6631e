"""The places of the stores, made once for all examples of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.state_machine.stores import Memory, Place, Postgres, SharedClock, SQLite


@pytest.fixture
def clock() -> SharedClock:
    return SharedClock()


@pytest.fixture
def without_server(clock: SharedClock, tmp_path: Path) -> Iterator[list[Place]]:
    """Memory, and a file of SQLite."""
    places: list[Place] = [Memory(clock), SQLite(clock, tmp_path / "jobs.db")]
    yield places
    for place in places:
        place.close()


@pytest.fixture
def everywhere(clock: SharedClock, without_server: list[Place], postgres_schema: str) -> Iterator[list[Place]]:
    """The same, and a schema of Postgres."""
    postgres = Postgres(clock, postgres_schema)
    yield [*without_server, postgres]
    postgres.close()
