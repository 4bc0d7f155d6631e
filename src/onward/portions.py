"""How much of a long piece of work goes into one commit, so that those who wait behind it hardly notice."""

from __future__ import annotations

FEWEST = 5
MOST = 100
HOLD = 0.005
"""Seconds that one commit should take."""
HOLD_OF_ONE_WRITER = 0.0005
"""The same where nobody else can write meanwhile: workers and enqueues wait so long for their turn, twice for each job."""
REST = 2
"""How many times as long as a commit took is left to the others behind it."""
LONGEST_REST = 0.05


def portion_behind(count: int, took: float, hold: float, most: int = MOST, fewest: int = FEWEST) -> int:
    """How many to take at once, so that it takes ``hold`` seconds, behind a commit of so many that took so long.

    It grows by half at most, and shrinks at once.
    """
    fitting = int(count * hold / took) if took > 0 else most
    return max(min(fitting, count + count // 2, most), fewest)


def rest_behind(took: float) -> float:
    """How long to leave the store to the others behind a commit that took so long."""
    return min(REST * took, LONGEST_REST)
