"""Search and print: ``python -m tests.model``, ``--release`` for the large scopes, ``--faults`` for the planted faults and their traces."""

from __future__ import annotations

import argparse
import sys

from tests.model.faults import PLANTED
from tests.model.scopes import NORMAL, RELEASE
from tests.model.search import Report, search


def main() -> int:
    """Print each search; 1 if something does not hold, or a planted fault is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description="Search the model of the lease protocol without gaps.")
    parser.add_argument("--release", action="store_true", help="the large scopes as well: minutes, and some GB")
    parser.add_argument("--faults", action="store_true", help="planted faults instead, each with the shortest way to it")
    parser.add_argument("--scope", help="only the scopes whose name has this in it")
    asked = parser.parse_args()
    if asked.faults:
        return _print_faults()
    reports = []
    for scope in RELEASE if asked.release else NORMAL:
        if asked.scope is None or asked.scope in scope.name:
            reports.append(search(scope))
            print(reports[-1], flush=True)
    return _sum_up(reports)


def _print_faults() -> int:
    missed = 0
    for fault in PLANTED:
        report = search(fault.scope, fault.rules)
        print(f"\n{fault.rules.__name__}: {fault.rules.__doc__}\n{report}", flush=True)
        missed += fault.found not in (report.violation or "")
    print(f"\n{len(PLANTED)} planted faults, {missed} not found")
    return 1 if missed else 0


def _sum_up(reports: list[Report]) -> int:
    states, transitions = sum(one.states for one in reports), sum(one.transitions for one in reports)
    broken = sum(one.violation is not None for one in reports)
    seconds = sum(one.seconds for one in reports)
    print(f"{len(reports)} scopes: {states:,} states, {transitions:,} transitions, {seconds:.0f} s of processor time, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
