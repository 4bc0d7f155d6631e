"""A pytest session that collects the tests once, and then does something else than to run them one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest

from tests.mutation.mutant import ROOT

NOT_USED = ("postgres-wheel", "private_postgres")
"""A parameter and a fixture that start a server: too slow to be run for each of many mutants."""
# Asserts are left as they are, for their rewriting has an import hook of its own: what fails is all that is asked for here.
_QUIET = ("-q", "-q", "--assert=plain", "--no-header", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist")


@dataclass(frozen=True)
class Tests:
    """The tests of these files and folders, but for those with one of ``without`` in their names."""

    paths: tuple[str, ...]
    without: tuple[str, ...] = ()


class _Instead:
    def __init__(self, without: Sequence[str], work: Callable[[list[pytest.Item]], None]) -> None:
        self.without = (*NOT_USED, *without)
        self.work = work
        self.has_worked = self.has_ended = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(name in item.nodeid or name in _fixtures(item) for name in self.without)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not session.testsfailed:
            self.has_worked = True
            self.work(session.items)
            self.has_ended = True
        return True


def with_collected(tests: Tests, work: Callable[[list[pytest.Item]], None]) -> bool:
    """Collect these tests and hand them over. False if they could not be collected: then nothing was done.

    Raises ``RuntimeError`` when what was to be done with them failed: pytest prints why, and says nothing of it to its caller.
    """
    instead = _Instead(tests.without, work)
    # The same examples for every mutant, nothing remembered, and no time spent on making a failure small.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutation", derandomize=True, database=None, deadline=None, phases=phases, suppress_health_check=list(hypothesis.HealthCheck)
    )
    hypothesis.settings.load_profile("mutation")
    pytest.main([*_QUIET, *tests.paths], plugins=[instead])
    if instead.has_worked and not instead.has_ended:
        raise RuntimeError("what was to be done with the tests has failed; the reason stands above")
    return instead.has_worked


def run_items(items: Sequence[pytest.Item], before: Callable[[pytest.Item], None]) -> Iterator[tuple[pytest.Item, bool, float]]:
    """Run tests in this order: each with whether it passed, and its seconds. At the end, undo what they share."""
    session = items[0].session
    watch = _Watch()
    session.config.pluginmanager.register(watch)
    try:
        for number, item in enumerate(items):
            before(item)
            watch.has_failed = False
            following = items[number + 1] if number + 1 < len(items) else None
            began = time.monotonic()
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except Exception:
                watch.has_failed = True  # a mutant may use up the memory, so that even the report of it fails
            yield item, not watch.has_failed, time.monotonic() - began
    finally:
        with suppress(Exception):  # what a failed test has left behind may not let itself be undone
            session._setupstate.teardown_exact(None)
        session.config.pluginmanager.unregister(watch)


class _Watch:
    has_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed = self.has_failed or report.failed


def name_of(item: pytest.Item) -> str:
    """The test's name as reach and trials know it: its file, from the project's folder if it is in there, and what is in the file."""
    file = item.path.relative_to(ROOT) if item.path.is_relative_to(ROOT) else item.path
    return f"{file}::{item.nodeid.partition('::')[2]}"


def _fixtures(item: pytest.Item) -> Sequence[str]:
    names: Any = getattr(item, "fixturenames", ())
    return list(names)
