"""What a tier promises to do is what it plans to do."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.torture import plans, run
from tests.torture.faults import FAULTS
from tests.torture.faults.kinds import Fault
from tests.torture.history import History, read_histories
from tests.torture.injectors import MissingInjector
from tests.torture.report import Report
from tests.torture.sites import STORES

LEAST_KILLS = {"sqlite": 5000, "postgres": 1500}


@pytest.mark.parametrize("store", STORES)
def test_a_release_has_its_kills_in_small_groups(store: str) -> None:
    groups = list(plans.kills(store, 7, "release"))
    assert sum(len(plan.faults) for plan in groups) >= LEAST_KILLS[store]
    assert max(len(plan.faults) for plan in groups) <= plans.KILLS_IN_GROUP
    restarts = sum(Counter(plan.faults)["restart server"] for plan in groups)
    assert restarts >= 200 if store == "postgres" else restarts == 0


@pytest.mark.parametrize("store", STORES)
def test_a_release_has_every_kind_of_fault_in_its_histories(store: str) -> None:
    histories = list(plans.histories(store, 7, "release"))
    assert len(histories) == 50
    first = {name.partition(plans.AND)[0] for plan in histories for name in plan.faults}
    assert first == {name for name, one in FAULTS.items() if store in one.stores}
    assert sum(plans.AND in name for plan in histories for name in plan.faults) >= 10, "faults that overlap"
    assert all(4 <= plan.size.supervisors * plan.size.processes <= 8 and plan.least_operations >= 500 for plan in histories)


def test_a_release_has_thirty_kinds() -> None:
    assert len(FAULTS) >= 30
    assert set(FAULTS) >= plans.OVERLAPPED.union(plans.DURING)


@pytest.mark.parametrize("store", STORES)
def test_a_quick_run_has_every_kind_once_at_least(store: str) -> None:
    planned = Counter(name for plan in plans.histories(store, 7, "quick") for name in plan.faults)
    assert planned == {name: one.quick for name, one in FAULTS.items() if store in one.stores and one.quick}


def test_what_replays_a_small_run_names_no_tier() -> None:
    """The tests have one of their own, which the command does not know."""
    assert plans.only("kill worker", "sqlite", 7, "smoke", times=2).again == "--fault 'kill worker' --times 2"
    assert plans.only("kill worker", "sqlite", 7, "quick").again == "--tier quick --fault 'kill worker'"


@pytest.mark.parametrize("part", [plans.kills, plans.histories])
def test_the_seed_of_one_run_gives_the_same_run_again(part: object) -> None:
    """Else what is printed for a failure would not replay it."""
    assert callable(part)
    (*_, last) = part("postgres", 7, "release")
    (again,) = part("postgres", last.seed, "release", 1)
    assert again == last


def test_a_fault_that_could_not_be_injected_is_named_and_fails_where_all_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONWARD_INJECTORS", raising=False)
    report = Report("histories", "quick", 7, faults={"kill worker": 1})
    report.lacks("wrong clock", MissingInjector("libfaketime is not installed"))
    assert report.has_passed
    assert "not injected: wrong clock, since libfaketime is not installed" in str(report)
    assert "wrong clock" not in report.faults
    monkeypatch.setenv("ONWARD_INJECTORS", "needed")
    report.lacks("wrong clock", MissingInjector("libfaketime is not installed"))
    assert not report.has_passed


class Nobody:
    """A fleet without processes: as much of one as the injection of a fault needs."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder, role="nemesis")

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        until = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < until, what


def test_the_second_of_two_overlapping_faults_comes_while_the_first_is_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet: Any = Nobody(tmp_path)
    has_come = threading.Event()

    def first(fleet: Any) -> None:
        fleet.history.write("fault", "first")
        assert has_come.wait(10)
        fleet.history.write("healed", "first")

    def second(fleet: Any) -> None:
        fleet.history.write("fault", "second")
        has_come.set()

    monkeypatch.setitem(FAULTS, "first", Fault("first", 0, first))
    monkeypatch.setitem(FAULTS, "second", Fault("second", 0, second))
    run.inject(fleet, "first", "second")
    said = [(event.kind, event.what) for event in read_histories(tmp_path)]
    assert said == [("fault", "first"), ("fault", "second"), ("healed", "first")]


def test_an_injector_that_is_missing_is_heard_of_when_it_overlaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(fleet: Any) -> None:
        raise MissingInjector("no such tool")

    monkeypatch.setitem(FAULTS, "first", Fault("first", 0, missing))
    with pytest.raises(MissingInjector):
        run.inject(Nobody(tmp_path), "first", "kill worker")  # type: ignore[arg-type]
