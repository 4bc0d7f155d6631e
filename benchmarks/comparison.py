"""Compares two sides: measures them by turns, and says in a line what was found."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from benchmarks.lines import Line, Side
from benchmarks.measures import Figures, middle
from benchmarks.places import empty_place
from tests.postgres_databases import Databases


class Result(Struct, frozen=True, kw_only=True):
    """The medians of both sides, all runs, and whether what is asked of the line holds; None where nothing is asked of it."""

    name: str
    store: str
    figure: str
    onward: Figures
    against: Figures
    ratio: float | None
    holds: bool | None
    runs: list[Figures]


def compare(line: Line, runs: int, databases: Databases | None, folder: Path | None) -> Result:
    """Measure each side so many times, by turns, each time in a place that was empty. Raises ``Failed``."""
    sides: list[Side] = [line.onward] if line.against is None else [line.onward, line.against]
    found: list[list[Figures]] = [[] for _ in sides]
    for turn in range(1 if line.is_long else runs):
        for place, side in enumerate(sides if turn % 2 else reversed(sides)):
            with empty_place(line.store, side.subject, databases, folder) as where:
                found[place if turn % 2 else len(sides) - 1 - place].append(side.measure(where))
    never = [name for name, most in line.limits.items() if most == 0]
    onward = middle(found[0]) | {name: max(one[name] for one in found[0]) for name in never}
    against = middle(found[1]) if line.against else {}
    ratio = onward[line.figure] / against[line.figure] if against else None
    return Result(
        name=line.name,
        store=line.store,
        figure=line.figure,
        onward=onward,
        against=against,
        ratio=ratio,
        holds=holds(line, ratio, onward),
        runs=[one for many in found for one in many],
    )


def holds(line: Line, ratio: float | None, onward: Figures) -> bool | None:
    """Whether the ratio and Onward's own figures are what the line asks; None where it asks nothing."""
    verdicts = [onward[name] <= most for name, most in line.limits.items()]
    if ratio is not None and line.least is not None:
        verdicts.append(ratio >= line.least)
    if ratio is not None and line.most is not None:
        verdicts.append(ratio <= line.most)
    return all(verdicts) if verdicts else None


def describe(result: Result, line: Line) -> str:
    """One line of the table."""
    asks = [f"{words} {number}" for words, number in (("at least", line.least), ("at most", line.most)) if number is not None]
    asked = ", ".join([*asks, *(f"{name} at most {most:g}" for name, most in line.limits.items())])
    ratio = "" if result.ratio is None else f"  ratio {result.ratio:.2f}"
    verdict = {True: f"  ({asked})", False: f"  MISSED ({asked})", None: ""}[result.holds]
    return f"{result.store:9}{result.name:34} {_text(result.onward)}{ratio}{verdict}\n{'':44}{_text(result.against)}".rstrip()


def _text(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.0f}" if value >= 100 else f"{name} {value:.2f}" for name, value in figures.items())
