"""The three stores, by name, over a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect

NAMES = ("memory", "sqlite", "postgres")


@pytest.fixture
def make_store(tmp_path: Path, emptied_postgres: Callable[[str], str]) -> Iterator[Callable[[str], Store]]:
    """``make_store("sqlite")``: an empty store of that kind, open, and closed after the test."""
    made: list[Store] = []

    def make(name: str) -> Store:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}.get(name) or emptied_postgres("postgres")
        made.append(connect(url, clock=FakeClock(), migrate=True))
        made[-1].open()
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest, make_store: Callable[[str], Store]) -> Store:
    return make_store(request.param)


@pytest.fixture
def three_stores(make_store: Callable[[str], Store]) -> dict[str, Store]:
    return {name: make_store(name) for name in NAMES}
