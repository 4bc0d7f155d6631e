"""Keys that are taken together get the same answers as keys that are taken one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers.sql import enqueue
from onward.drivers.sqlite.driver import SQLiteStore
from onward.testing.conformance import (  # noqa: F401  # the suite's own cases, over this way of taking keys
    TestChildren,
    TestDuplicates,
    TestEnqueueAgain,
    TestRequests,
    TestScopeActive,
    TestScopeInTime,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteStore]:
    monkeypatch.setattr(enqueue, "TOGETHER_FROM", 1)
    store = SQLiteStore(tmp_path / "jobs.db", clock=clock)
    yield store
    store.close()


@pytest.fixture
def reopen(tmp_path: Path, clock: FakeClock) -> Callable[[], SQLiteStore]:
    return lambda: SQLiteStore(tmp_path / "jobs.db", clock=clock)
