"""The fixtures that pytest finds by itself once Onward is installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from onward import Onward, define_job
from onward.drivers.memory import MemoryStore
from onward.testing import FakeClock, drain, enqueued_jobs

tidy = define_job("tidy-up", lambda: None)
greet = define_job("greet", lambda: None)


def test_an_application_is_made_on_the_memory_store(onward_app: Callable[..., Onward], onward_store: MemoryStore) -> None:
    """A test of application code needs no file and no server."""
    app = onward_app(tidy, greet)
    assert app.store is onward_store
    app.enqueue(tidy)
    assert [job.type for job in onward_store.enqueued_jobs] == ["tidy-up"]
    assert drain(app).counts == {"completed": 1}


def test_an_application_takes_a_list_of_jobs_and_options(onward_app: Callable[..., Onward]) -> None:
    """Applications keep their jobs in lists."""
    app = onward_app([tidy], greet, services="desk")
    assert (len(app.definitions), app.services) == (2, "desk")


def test_the_clock_is_the_store_s(onward_app: Callable[..., Onward], onward_store: MemoryStore, onward_clock: FakeClock) -> None:
    """Moving it makes later jobs due."""
    app = onward_app(tidy)
    app.enqueue(tidy, delay="1h")
    assert (enqueued_jobs(app), len(onward_store.scheduled_jobs)) == ([], 1)
    onward_clock.advance(3600)
    assert (len(enqueued_jobs(app)), onward_store.scheduled_jobs) == (1, [])


def test_each_test_has_a_store_of_its_own(onward_store: MemoryStore) -> None:
    """What the tests above enqueued is not here."""
    assert (onward_store.enqueued_jobs, onward_store.scheduled_jobs) == ([], [])


def test_loading_the_plugin_loads_nothing_heavy() -> None:
    """It is loaded by every pytest run on the machine, also those of projects that only have Onward installed."""
    code = "import pytest, sys; before = set(sys.modules); import onward.testing.pytest_plugin; print(*set(sys.modules) - before)"
    loaded = set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())
    heavy = {"asyncio", "sqlite3", "ctypes", "click", "onward.drivers.memory", "onward.drivers.sqlite", "onward.worker"}
    assert loaded & heavy == set()
    assert "onward.testing.pytest_plugin" in loaded
