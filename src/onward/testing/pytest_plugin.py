"""Fixtures for applications' tests, there as soon as Onward is installed. Loads nothing before a test asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from onward.app import Onward
from onward.clock import FakeClock
from onward.definition import JobDefinition

if TYPE_CHECKING:
    from onward.drivers.memory import MemoryStore

pytest.register_assert_rewrite("onward.testing.conformance")


@pytest.fixture
def onward_clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture
def onward_store(onward_clock: FakeClock) -> Iterator[MemoryStore]:
    """An empty memory store on ``onward_clock``."""
    from onward.drivers.memory import MemoryStore

    store = MemoryStore(clock=onward_clock)
    yield store
    store.close()


@pytest.fixture
def onward_app(onward_store: MemoryStore) -> Iterator[Callable[..., Onward]]:
    """A factory: ``onward_app(welcome, reminder, services=...)`` gives an application with these jobs on ``onward_store``."""
    made: list[Onward] = []

    def make(*jobs: JobDefinition[Any] | Iterable[JobDefinition[Any]], **options: Any) -> Onward:
        definitions = [one for job in jobs for one in ([job] if isinstance(job, JobDefinition) else job)]
        made.append(Onward(store=onward_store, jobs=definitions, **options))
        return made[-1]

    yield make
    for app in made:
        app.close()
