"""Limits: what may be said, and how many may begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward.errors import InvalidDefinition
from onward.limit import MOST, Limit, LimitState

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def state(limit: Limit, **fields: Any) -> LimitState:
    return LimitState(kind="key", name="s3", limit=limit, **fields)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "needs concurrency="),
        ({"concurrency": 0}, "concurrency= of a limit is a whole number from 1"),
        ({"concurrency": True}, "concurrency= of a limit is a whole number from 1"),
        ({"concurrency": 1.0}, "concurrency= of a limit is a whole number from 1"),
        ({"concurrency": MOST + 1}, "concurrency= of a limit is a whole number from 1"),
        ({"rate": "often"}, "rate= is a rate such as"),
        ({"rate": "1/s", "burst": 0}, "burst= of a limit is a whole number from 1"),
        ({"concurrency": 1, "burst": 3}, "burst= of a limit goes with rate="),
        ({"rate": "1/10d", "burst": 1_000_000}, "burst= of a limit is at most what its rate gives in 36500 days"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidDefinition, match=why):
        Limit(**given)


@pytest.mark.parametrize(
    ("limit", "running", "room"),
    [
        (Limit(concurrency=3), 0, 3),
        (Limit(concurrency=3), 2, 1),
        (Limit(concurrency=3), 3, 0),
        (Limit(concurrency=3), 7, 0),
        (Limit(rate="10/s"), 50, 10),
        (Limit(rate="10/s", burst=2), 0, 2),
        (Limit(concurrency=1, rate="10/s"), 0, 1),
        (Limit(concurrency=9, rate="10/s", burst=4), 0, 4),
    ],
)
def test_the_room_is_what_neither_of_them_has_used_up(limit: Limit, running: int, room: int) -> None:
    assert state(limit).room(running, NOW) == room


def test_what_has_begun_comes_back_at_the_rate() -> None:
    spent = state(Limit(rate="10/s", burst=4)).taken(4, NOW)
    assert spent.room(0, NOW) == 0
    assert spent.next_token(NOW) == NOW + timedelta(seconds=0.1)
    assert spent.room(0, NOW + timedelta(seconds=0.25)) == 2
    assert spent.next_token(NOW + timedelta(seconds=0.1)) is None


def test_without_a_rate_nothing_is_written_down() -> None:
    plain = state(Limit(concurrency=1))
    assert plain.taken(1, NOW) is plain
    assert plain.next_token(NOW) is None


def test_what_was_spent_a_moment_later_is_not_forgotten_by_one_who_was_kept_waiting() -> None:
    later = NOW + timedelta(milliseconds=5)
    spent = state(Limit(rate="1000/s", burst=2)).taken(2, later)
    assert spent.now(NOW) is spent
    assert spent.room(0, NOW) == 0
    assert spent.now(NOW - timedelta(minutes=2)).spent_until == NOW - timedelta(minutes=2) + timedelta(milliseconds=2)
