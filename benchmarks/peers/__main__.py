"""Measure Onward beside other libraries: ``python -m benchmarks.peers --peer huey --only drain --runs 3 --json figures.json``.

Each line is one measurement of Onward, and under it the same of the peer, taken in turn in fresh processes, with the medians. The ratio
is Onward's to the peer's: more is better for jobs a second, less for milliseconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import msgspec

from benchmarks import measures
from benchmarks.comparison import Result, compare, describe
from benchmarks.lines import BATCH, Line, Side
from benchmarks.measures import Measure
from benchmarks.places import machine
from benchmarks.processes import Failed
from benchmarks.subjects import ONWARD, PEERS, peer
from tests.postgres_databases import Databases
from tests.postgres_server import NoPostgres, Server, find_server

ONWARD_KEEPS = "onward: its default settings, with as many slots as its own measurements; keeps the row for 7 days"


def main() -> int:
    """Measure the peers that the arguments name; 1 if one could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--peer", action="append", help=f"one of {', '.join(PEERS)}, or a module like theirs; otherwise all of them")
    parser.add_argument("--only", default="", help="only lines with this in their name")
    parser.add_argument("--runs", type=int, default=3, help="how often each side is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="0.01 tries in a few minutes whether everything works")
    parser.add_argument("--folder", type=Path, help="on which disk the SQLite files are; otherwise where temporary files are")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    told: dict[str, str] = {}
    results: list[Result | None] = []
    print(", ".join(f"{name} {value}" for name, value in machine().items()), ONWARD_KEEPS, sep="\n", flush=True)
    with ExitStack() as stack:
        databases: Databases | None = None
        for name in given.peer or PEERS:
            try:
                measured = peer(name)
                if measured.STORE == "postgres" and databases is None:
                    databases = stack.enter_context(Databases(_server()))
            except (ImportError, NoPostgres) as error:
                print(f"{name} is not measured: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
                results.append(None)
                continue
            told[name] = f"{name} {version(measured.DISTRIBUTION)}: {measured.SETTING}; {measured.KEEPS}"
            print(told[name], flush=True)
            asked = [line for line in lines(name, measured, given.scale) if given.only in line.name]
            results += [_measure(line, given.runs, databases, given.folder) for line in asked]
    if given.json:
        figures = {"machine": machine(), "onward": ONWARD_KEEPS, "peers": told, "results": [one for one in results if one]}
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1))
    return 1 if None in results else 0


def _server() -> Server:
    """Raises ``NoPostgres``."""
    server = find_server()
    if server is None:
        raise NoPostgres("there is no Postgres at the usual address; name one in ONWARD_TEST_POSTGRES")
    return server


def _measure(line: Line, runs: int, databases: Databases | None, folder: Path | None) -> Result | None:
    """Print what was found; None where it could not be measured."""
    try:
        result = compare(line, runs, databases, folder)
    except Failed as failure:
        print(f"{line.name}: {failure}", file=sys.stderr, flush=True)
        return None
    print(describe(result, line), flush=True)
    return result


def lines(name: str, measured: ModuleType, scale: float) -> Iterator[Line]:
    """Every measurement of this peer, each beside the same one of Onward."""
    store = measured.STORE
    for processes in (1, 2):
        drain = partial(measures.drain, count=int(measured.JOBS * scale) * processes, processes=processes, batch=BATCH[store])
        yield _beside(name, store, f"drain, {processes} process{'es' * (processes > 1)}", drain)
    yield _beside(name, store, "enqueue one by one", partial(measures.one, seconds=2.0 * scale))
    yield _beside(name, store, "pickup", partial(measures.pickup, count=int(200 * scale)), figure="p50_ms")


def _beside(name: str, store: str, what: str, measure: Measure, figure: str = "rate") -> Line:
    onward, against = Side(ONWARD, measure), Side(name, measure)
    return Line(name=f"{name}: {what}", store=store, onward=onward, against=against, figure=figure)


if __name__ == "__main__":
    sys.exit(main())
