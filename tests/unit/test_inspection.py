"""The values with which a store is looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward.errors import InvalidDefinition
from onward.inspection import Retention
from onward.status import Status


def test_retention_is_written_as_every_duration_is() -> None:
    """A retention that only fails when the pruner subtracts it would never prune anything."""
    kept = Retention(completed="1h30m", cancelled=60, dead_letter=timedelta(days=400))
    assert (kept.completed, kept.cancelled, kept.dead_letter) == (timedelta(minutes=90), timedelta(minutes=1), timedelta(days=400))


def test_dead_letters_stay_until_a_person_deletes_them_unless_told_otherwise() -> None:
    """Somebody has to look at them; the others go after a week."""
    week = timedelta(days=7)
    assert Retention().by_status() == {Status.COMPLETED: week, Status.CANCELLED: week}


@pytest.mark.parametrize("age", ["xx", "-1s", float("inf"), True])
def test_what_is_no_duration_is_refused_at_once(age: Any) -> None:
    """At start, by the name of the argument."""
    with pytest.raises(InvalidDefinition, match=r"Retention\(cancelled="):
        Retention(cancelled=age)
