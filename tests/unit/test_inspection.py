"""The values with which a store is looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward.errors import InvalidDefinition
from onward.inspection import Retention
from onward.options import read_retention
from onward.status import Status


def test_retention_is_written_as_every_duration_is() -> None:
    """A retention that only fails when the pruner subtracts it would never prune anything."""
    kept = Retention(completed="1h30m", cancelled=60, dead_letter=timedelta(days=400))
    assert (kept.completed, kept.cancelled, kept.dead_letter) == (timedelta(minutes=90), timedelta(minutes=1), timedelta(days=400))


def test_dead_letters_stay_until_a_person_deletes_them_unless_told_otherwise() -> None:
    """Somebody has to look at them; the others go after a week."""
    week = timedelta(days=7)
    assert Retention().by_status() == {Status.COMPLETED: week, Status.CANCELLED: week}


@pytest.mark.parametrize("name", ["completed", "cancelled", "dead_letter", "rollups", "actions"])
@pytest.mark.parametrize("age", ["xx", "-1s", float("inf"), True])
def test_what_is_no_duration_is_refused_at_once(name: str, age: Any) -> None:
    """At start, by the name of the argument."""
    with pytest.raises(InvalidDefinition, match=rf"^Retention\({name}="):
        Retention(**{name: age})


def test_an_application_keeps_what_it_was_told_to_and_else_what_is_stated() -> None:
    """A retention that is taken and not used deletes what was to be kept, or fills the disk."""
    told = Retention(completed="1d", dead_letter="30d")
    assert read_retention(told) is told
    assert read_retention(None).by_status() == Retention().by_status()
    assert (Retention().dead_letter, Retention().rollups, Retention().actions) == (None, timedelta(days=90), timedelta(days=90))
