"""Break fleets of real processes, and check every promise: ``python -m tests.torture --tier quick --store sqlite --seed 1``.

A release has two parts: kills, thousands of them, judged in groups; and histories, each with several kinds of faults.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.torture import plans, planted
from tests.torture.faults import FAULTS
from tests.torture.plans import Plan
from tests.torture.pool import in_processes, leave_in_good_order
from tests.torture.report import Report, Tier
from tests.torture.run import is_found, plant, torture
from tests.torture.sites import STORES
from tests.torture.traced import compile_modules

AT_ONCE = 3
"""Fleets at a time: two keep two cores busy while a third waits for a fault to pass."""
TRIES = 3
"""How often a bug is planted before it counts as not found."""
SHOWN = ("operations", "accepted", "claims killed", "unknown", "lost", "processor seconds")
PARTS = {"kills": plans.kills, "histories": plans.histories}


def main() -> int:
    """Run what the arguments say; 0 if everything held, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--tier", choices=("quick", "release"), default="quick")
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seed", type=int, help="what the choices come from; otherwise one is drawn, and printed")
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--groups", type=int, default=0, help="how many groups of kills and how many histories on each store of a release")
    parser.add_argument("--fault", choices=sorted(FAULTS), default="", help="only this one")
    parser.add_argument("--times", type=int, default=0, help="how often it is injected; otherwise each has its own number")
    parser.add_argument("--planted", choices=sorted(planted.CAUGHT_BY), default="", help="run with this bug, which must be found")
    given = parser.parse_args()
    given.seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    if given.planted:
        return 0 if _finds(given.planted, given.seed) else 1
    planned = list(_plans(given))
    if not planned:
        parser.error(f"the fault {given.fault!r} is not for {given.store}")
    leave_in_good_order()
    compile_modules()  # each of the thousands of processes would compile them anew, where Python is told to keep nothing
    has_passed = _tortures(planned, given.tier, given.seed)
    if given.tier == "release" and given.part != "kills" and not given.fault:
        missed = [bug for bug in planted.CAUGHT_BY if not _finds(bug, given.seed)]
        has_passed = has_passed and not missed
    return 0 if has_passed else 1


def _plans(given: argparse.Namespace) -> Iterator[Plan]:
    stores = [store for store in STORES if given.store in (store, "all")]
    if given.fault:
        for store in stores:
            if store in FAULTS[given.fault].stores:
                yield plans.only(given.fault, store, given.seed, given.tier, given.times)
        return
    for name, part in PARTS.items():
        for store in stores:
            if given.part in (name, "all"):
                yield from part(store, given.seed, given.tier, given.groups)


def _tortures(planned: Sequence[Plan], tier: Tier, seed: int) -> bool:
    began = time.monotonic()
    totals: dict[str, Report] = {}
    numbers: dict[str, int] = {}
    mixed = _mixed(planned)
    for plan, one in zip(mixed, in_processes(torture, [(plan,) for plan in mixed], AT_ONCE), strict=True):
        total = totals.setdefault(one.name, Report(name=one.name, tier=tier, seed=seed))
        numbers[one.name] = numbers.get(one.name, 0) + 1
        total.versions, total.seconds = one.versions, total.seconds + one.seconds
        total.add(one)
        print(_line(one, numbers[one.name], sum(other.part == plan.part and other.store == plan.store for other in planned)), flush=True)
    for total in totals.values():
        total.print()
        print(f"  {_bound(total)}", flush=True)
    print(f"in all {time.monotonic() - began:.0f} s, {AT_ONCE} fleets at a time", flush=True)
    return all(total.has_passed for total in totals.values())


def _mixed(planned: Sequence[Plan]) -> list[Plan]:
    """Spread the kinds of runs evenly: kills want the processor, and histories often only wait."""
    places: list[tuple[float, int, Plan]] = []
    for kind in sorted({(plan.part, plan.store) for plan in planned}):
        ours = [plan for plan in planned if (plan.part, plan.store) == kind]
        places += [((place + 0.5) / len(ours), number, plan) for number, (place, plan) in enumerate(enumerate(ours))]
    return [plan for _, _, plan in sorted(places, key=lambda one: one[:2])]


def _line(one: Report, number: int, of: int) -> str:
    rounds = one.counts.get("rounds", 0)
    counts = ", ".join(
        f"{one.counts.get(name, 0):,} {name}"
        for name in ("operations", "accepted", "claims killed", "unknown", "lost", "processor seconds")
    )
    return (
        f"{one.name}, {number} of {of}, seed {one.seed}: {rounds} rounds in {one.seconds:.1f} s, "
        f"{len(one.faults)} kinds of faults, {counts}: {one.verdict}"
    )


def _finds(bug: str, seed: int) -> bool:
    """Run with a bug until it does harm that is found: a few times, since it is by chance whom it meets."""
    for one in range(seed, seed + TRIES):
        with tempfile.TemporaryDirectory() as folder:  # its files are meant to show a failure, and need not be kept
            report = plant(bug, one, base=Path(folder))
        if is_found(bug, report):
            print(f"planted bug {bug!r}: found in run {one - seed + 1} ({report.seconds:.1f} s)", flush=True)
            return True
    print(f"planted bug {bug!r}: NOT FOUND in {TRIES} runs", flush=True)
    report.print()
    return False


def _bound(report: Report) -> str:
    """What so many rounds without a failure prove."""
    rounds = report.counts.get("rounds", 0)
    if not report.has_passed or not rounds:
        return "proves nothing"
    return f"proves: {rounds:,} rounds without a failure bound the rate at {min(3 / rounds, 1):.2%} a round, with 95 % confidence"


if __name__ == "__main__":
    sys.exit(main())
