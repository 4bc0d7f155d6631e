"""How long a claim may go on where the last search has led it."""

from __future__ import annotations

import pytest

from onward.clock import FakeClock
from onward.drivers.postgres.lanes import MOST, SERVES, Lanes
from onward.drivers.sql.statements import as_json


def told(*lanes: tuple[str, int, str], took: float = 0.5) -> list[str]:
    return [as_json([*lane, took]) for lane in lanes]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def lanes(clock: FakeClock) -> Lanes:
    return Lanes(clock)


def test_what_a_slow_search_found_serves_ten_times_as_long_as_it_took(lanes: Lanes, clock: FakeClock) -> None:
    lanes.note((), told(("a", 0, "2026-01-01Z"), ("b", 7, "2026-01-02Z")), searched=True)
    clock.advance(SERVES * 0.5 - 0.001)
    assert lanes.known(()) == '[["a",0,"2026-01-01Z"],["b",7,"2026-01-02Z"]]'
    clock.advance(0.001)
    assert lanes.known(()) is None


def test_a_claim_that_was_told_moves_on_and_does_not_prolong(lanes: Lanes, clock: FakeClock) -> None:
    lanes.note((), told(("a", 0, "2026-01-01Z")), searched=True)
    clock.advance(4)
    lanes.note((), told(("a", 0, "2026-01-05Z"), took=9.0), searched=False)
    assert lanes.known(()) == '[["a",0,"2026-01-05Z"]]'
    clock.advance(1)
    assert lanes.known(()) is None


@pytest.mark.parametrize("news", [[], told(*(("a", 0, "2026-01-01Z"),) * (MOST + 1))], ids=["quick", "too many"])
def test_a_search_that_was_quick_or_found_very_many_is_done_each_time(lanes: Lanes, news: list[str]) -> None:
    lanes.note((), told(("a", 0, "2026-01-01Z")), searched=True)
    lanes.note((), news, searched=True)
    assert lanes.known(()) is None


def test_as_many_as_are_told_of_at_most_serve(lanes: Lanes) -> None:
    lanes.note((), told(*(("a", number, "2026-01-01Z") for number in range(MOST))), searched=True)
    assert lanes.known(()) is not None


def test_who_asks_for_other_queues_searches_for_himself(lanes: Lanes) -> None:
    lanes.note(("a",), told(("a", 0, "2026-01-01Z")), searched=True)
    assert lanes.known(("a",)) is not None
    assert lanes.known(("a", "b")) is None
    assert lanes.known(()) is None
