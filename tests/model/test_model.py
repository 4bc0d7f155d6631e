"""The lease protocol, searched without gaps for small numbers; and planted faults, to show that the search can fail.

``python -m tests.model`` prints the figures, ``ONWARD_TEST_TIER=release`` searches more, ``python -m tests.model --help`` says the rest.
"""

from __future__ import annotations

import os

import pytest

from onward import outcome
from onward.status import TRANSITIONS
from tests.model.faults import PLANTED, Planted
from tests.model.rules import CAPS, small_caps
from tests.model.scopes import ENDINGS, EVERY_ENDING, NORMAL, RELEASE
from tests.model.search import search
from tests.model.state import Scope

IS_RELEASE = os.environ.get("ONWARD_TEST_TIER") == "release"
SCOPES = RELEASE if IS_RELEASE else NORMAL


@pytest.mark.timeout(3600 if IS_RELEASE else 120)
@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_everything_holds_whatever_happens_in_whatever_order(scope: Scope) -> None:
    """What a test of one order cannot say: there is no order of events that breaks a promise."""
    report = search(scope)
    print(report)
    assert report.violation is None, f"\n{report}"
    assert report.states > 1000
    assert report.transitions > report.states


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.rules.__name__)
def test_a_planted_fault_is_found(planted: Planted) -> None:
    """A search that never fails proves nothing."""
    report = search(planted.scope, planted.rules)
    print(report)
    assert planted.found in (report.violation or ""), f"\n{report}"
    sound = search(planted.scope, within=report.states)
    assert sound.violation is None, f"the fault is not needed to fail here\n{sound}"


def test_the_shortest_way_to_a_fault_is_told() -> None:
    """Whoever breaks the protocol should see at once how."""
    fault = next(one for one in PLANTED if one.rules.__name__ == "NoFenceInSettle")
    report = search(fault.scope, fault.rules)
    assert str(report).splitlines()[1:] == [
        "   1. a client enqueues job 1",
        "   2. A claims job 1",
        "   3. A begins job 1",
        "   4. a tick passes",
        "   5. the sweep takes job 1 back, whose lease ran out",
        "   6. B claims job 1",
        "   7. A settles job 1: returned, claim 1",
        "  =>  the stale claim 1 of job 1 was accepted (complete): the newest is 2",
    ]


def test_every_arrow_of_the_table_is_walked() -> None:
    """An arrow that no search ever takes would be proved of nothing."""
    scope = Scope("every arrow", endings=EVERY_ENDING, acts=frozenset({"cancel", "run now"}), retries=1, max_attempts=2, processes=1)
    walked = search(scope, within=10_000).arrows
    legal = {(before.value, verb, after.value) for (before, verb), ends in TRANSITIONS.items() for after in ends}
    assert legal <= walked


def test_a_row_that_was_deleted_takes_its_fences_along() -> None:
    """Known, and not promised: a request that is repeated after a person deleted its row begins with fence 1 again."""
    report = search(Scope("repeated request", acts=frozenset({"delete", "enqueue again"})))
    assert report.violation == "job 1 was claimed with fence 1, and there was a claim 1 before"
    assert report.trace[-2:] == ["a client repeats the enqueue of job 1, whose row is gone", "B claims job 1"]


def test_the_same_search_finds_the_same() -> None:
    """Else a violation could not be looked at a second time."""
    first, second = search(ENDINGS, within=2000), search(ENDINGS, within=2000)
    assert (first.states, first.transitions, first.arrows) == (second.states, second.transitions, second.arrows)


def test_the_codes_own_bounds_are_back_after_a_search() -> None:
    """The search lets the rules count to less, so that it comes to an end."""
    before = {name: getattr(outcome, name) for name in CAPS}
    with small_caps():
        assert {name: getattr(outcome, name) for name in CAPS} == CAPS
    assert {name: getattr(outcome, name) for name in CAPS} == before
    assert all(CAPS[name] < before[name] for name in CAPS)
