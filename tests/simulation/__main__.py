"""Simulate histories, and judge each: ``python -m tests.simulation --histories 50000 --seed 1``; ``--only SEED`` for one again."""

from __future__ import annotations

import argparse
import os
import secrets
import sys

from tests.simulation.planted import PLANTED
from tests.simulation.run import simulate, simulate_together
from tests.torture.report import Report

SHOWN = 10


def main() -> int:
    """Print what was done; 1 if something did not hold, or a planted bug was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="the first history's; each has the next one. Otherwise it is drawn, and printed")
    parser.add_argument("--only", type=int, help="this history alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--planted", choices=sorted(PLANTED), default="", help="with this bug, which must be found")
    asked = parser.parse_args()
    seed = secrets.randbelow(10**9) if asked.seed is None else asked.seed
    if asked.planted:
        found = simulate(range(seed, seed + asked.histories), asked.planted)
        print(f"planted bug {asked.planted!r}: {'found' if found.failures else 'NOT FOUND'} in {found.counts['histories']} histories")
        return 0 if found.failures else 1
    if asked.only is not None:
        report = simulate([asked.only])
        report.seed = asked.only
    else:
        report = simulate_together(seed, asked.histories, asked.jobs)
    _print(report)
    return 0 if report.has_passed else 1


def _print(report: Report) -> None:
    failures, report.failures = report.failures, report.failures[:SHOWN]
    report.print()
    if failures[SHOWN:]:
        print(f"  ... and {len(failures) - SHOWN} more")
    if report.has_passed:
        print(
            f"  proves: {report.counts['histories']:,} histories without a failure bound the rate at {3 / report.counts['histories']:.3%}"
        )


if __name__ == "__main__":
    sys.exit(main())
