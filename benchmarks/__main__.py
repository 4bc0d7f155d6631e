"""Measure Onward beside the raw loops: ``python -m benchmarks --store sqlite --only drain --runs 3 --json figures.json``.

Each line is one measurement of each side, taken in turn in fresh processes, with the medians and their ratio. The ratio counts: a
machine that others use too is faster now and slower then.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.lines import STORES, Line, Side, lines
from benchmarks.measures import Figures, middle
from benchmarks.places import empty_place, machine
from benchmarks.processes import Failed
from tests.postgres_databases import Databases
from tests.postgres_server import find_server


class Result(Struct, frozen=True, kw_only=True):
    """The medians of both sides, all runs, and whether the ratio is as it is to be; None where nothing is asked of it."""

    name: str
    store: str
    figure: str
    onward: Figures
    against: Figures
    ratio: float | None
    holds: bool | None
    runs: list[Figures]


def main() -> int:
    """Measure what the arguments say; 1 if a ratio was missed, or something could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--only", default="", help="only lines with this in their name")
    parser.add_argument("--runs", type=int, default=3, help="how often each side is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="0.01 tries in a minute whether everything works")
    parser.add_argument("--folder", type=Path, help="on which disk the SQLite files are; otherwise where temporary files are")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    results: list[Result] = []
    failed = False
    with ExitStack() as stack:
        databases = None
        if given.store != "sqlite":
            server = find_server()
            if server is None:
                print(
                    "There is no Postgres at the usual address: name one in ONWARD_TEST_POSTGRES, or say --store sqlite.", file=sys.stderr
                )
                return 2
            databases = stack.enter_context(Databases(server))
        print(", ".join(f"{name} {value}" for name, value in machine().items()), flush=True)
        for store in STORES:
            if given.store not in (store, "all"):
                continue
            for line in lines(store, given.scale):
                if given.only not in line.name:
                    continue
                try:
                    result = _measure(line, given.runs, databases, given.folder)
                except Failed as failure:
                    print(f"{store}: {line.name}: {failure}", file=sys.stderr, flush=True)
                    failed = True
                    continue
                results.append(result)
                print(describe(result, line), flush=True)
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": machine(), "results": results}), indent=1))
    return 1 if failed or any(result.holds is False for result in results) else 0


def _measure(line: Line, runs: int, databases: Databases | None, folder: Path | None) -> Result:
    sides: list[Side] = [line.onward] if line.against is None else [line.onward, line.against]
    found: list[list[Figures]] = [[] for _ in sides]
    for turn in range(runs):
        for place, side in enumerate(sides if turn % 2 else reversed(sides)):
            with empty_place(line.store, side.subject, databases, folder) as where:
                found[place if turn % 2 else len(sides) - 1 - place].append(side.measure(where))
    onward = middle(found[0])
    against = middle(found[1]) if line.against else {}
    ratio = onward[line.figure] / against[line.figure] if against else None
    return Result(
        name=line.name,
        store=line.store,
        figure=line.figure,
        onward=onward,
        against=against,
        ratio=ratio,
        holds=_holds(line, ratio),
        runs=[one for many in found for one in many],
    )


def _holds(line: Line, ratio: float | None) -> bool | None:
    if ratio is None or (line.least is None and line.most is None):
        return None
    return (line.least is None or ratio >= line.least) and (line.most is None or ratio <= line.most)


def describe(result: Result, line: Line) -> str:
    """One line of the table."""
    asked = f"at least {line.least}" if line.least is not None else f"at most {line.most}" if line.most is not None else ""
    ratio = "" if result.ratio is None else f"  ratio {result.ratio:.2f}"
    verdict = {True: f"  ({asked})", False: f"  MISSED ({asked})", None: ""}[result.holds]
    return f"{result.store:9}{result.name:34} {_text(result.onward)}{ratio}{verdict}\n{'':44}{_text(result.against)}".rstrip()


def _text(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.0f}" if value >= 100 else f"{name} {value:.2f}" for name, value in figures.items())


if __name__ == "__main__":
    sys.exit(main())
