"""Simulated fleets lose nothing; and the simulation can fail."""

from __future__ import annotations

from itertools import count, islice
from pathlib import Path

import pytest

from tests.simulation.fleet import simulation
from tests.simulation.planted import PLANTED
from tests.simulation.run import simulate

HISTORIES = 60
"""A release has 50,000: ``python -m tests.simulation --histories 50000``."""
ENOUGH_TO_FIND = 100


def test_simulated_fleets_keep_every_promise() -> None:
    """Crashes, frozen processes, lost answers and late messages, in every order that sixty seeds give."""
    report = simulate(range(1, HISTORIES + 1))
    report.print()
    assert report.has_passed
    assert {"crash", "freeze", "answer lost", "request lost", "late outcome", "late renewal"} <= set(report.faults)


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    """A simulation in which nothing can go wrong shows nothing."""
    assert simulate(islice(count(1), ENOUGH_TO_FIND), bug).failures


def test_a_history_is_the_same_when_it_is_run_again(tmp_path: Path) -> None:
    """Else a failure could not be looked at."""
    told = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        with simulation(folder) as made:
            made.run(6)
            told.append(made.run(7)[1].events)
    assert told[0] == told[1]
    assert len(told[0]) > HISTORIES
