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

from benchmarks.comparison import Result, compare, describe
from benchmarks.lines import STORES, lines
from benchmarks.places import machine
from benchmarks.processes import Failed, NotMeasured
from tests.postgres_databases import Databases
from tests.postgres_server import find_server


def main() -> int:
    """Measure what the arguments say; 1 if what is asked was missed, or a measurement failed."""
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
                    result = compare(line, given.runs, databases, given.folder)
                except NotMeasured as reason:
                    print(f"{store:9}{line.name:34} not measured: {reason}", flush=True)
                    continue
                except Failed as failure:
                    print(f"{store}: {line.name}: {failure}", file=sys.stderr, flush=True)
                    failed = True
                    continue
                results.append(result)
                print(describe(result, line), flush=True)
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": machine(), "results": results}), indent=1))
    return 1 if failed or any(result.holds is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
