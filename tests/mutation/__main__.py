"""Break the code on purpose, and see that a test notices: ``python -m tests.mutation --only rules --sample 100 --seed 1``.

The reasons for survivors that no test should kill are in ``explanations.toml``.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.explanations import FILE, read_explanations, without_mutant
from tests.mutation.groups import GROUPS, Group
from tests.mutation.mutant import ROOT, Mutant
from tests.mutation.reach import record
from tests.mutation.report import GroupReport
from tests.mutation.trial import Trial, Verdict, try_mutants


def main() -> int:
    """Run what the arguments say; 0 if every group passed, 1 if not."""
    given = _arguments()
    explanations = read_explanations(FILE.read_text(encoding="utf-8"))
    mutants = {group: group.mutants() for group in GROUPS}
    stale = without_mutant(explanations, [one.name for them in mutants.values() for one in them])
    for name in stale:
        print(f"explained, and there is no such mutant: {name}")
    if given.name:
        return _try_one(given.name, mutants, given.jobs)
    print(f"seed {given.seed}, {given.jobs} at a time", flush=True)
    reports = [_try_group(group, mutants[group], given) for group in GROUPS if given.only in (None, group.name)]
    return 0 if not stale and all(report.has_passed(explanations) for report in reports) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Break the code on purpose, and see that a test notices.")
    parser.add_argument("--only", choices=[group.name for group in GROUPS], help="only this group")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants of each group, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", metavar="MUTANT", help="only this mutant: the name, or a part of it that no other has")
    parser.add_argument("--names", type=Path, metavar="FILE", help="only the mutants whose names stand in this file, such as a report")
    parser.add_argument("--explained", action="store_true", help="try also those that are known to survive")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many are tried at the same time")
    return parser.parse_args()


def _try_group(group: Group, mutants: Sequence[Mutant], given: argparse.Namespace) -> GroupReport:
    chosen = list(mutants)
    if given.names is not None:
        lines = given.names.read_text(encoding="utf-8").splitlines()
        chosen = [one for one in mutants if any(line.endswith(one.name) for line in lines)]
    if given.sample is not None and given.sample < len(mutants):
        chosen = sorted(random.Random(given.seed).sample(mutants, given.sample), key=mutants.index)
    began = time.monotonic()
    reach = record(group.tests, given.jobs)
    print(f"{group.name}: {len(reach.tests)} tests recorded after {time.monotonic() - began:.0f} s", flush=True)
    for test in reach.failed:
        print(f"  fails without any mutant, and is not used: {test}")
    explanations = read_explanations(FILE.read_text(encoding="utf-8"))
    # One that is explained survives, and would run every test that reaches it to prove it.
    passed_over = [one for one in chosen if one.name in explanations and not given.explained]
    trials = [Trial(one, Verdict.EXPLAINED) for one in passed_over]
    for trial in try_mutants([one for one in chosen if one not in passed_over], reach, group.tests, given.jobs):
        trials.append(trial)
        if trial.is_survivor:
            print(f"  {trial.verdict}: {trial.mutant.name}", flush=True)
        if len(trials) % 100 == 0:
            print(f"  {len(trials)} of {len(chosen)} after {time.monotonic() - began:.0f} s", flush=True)
    report = GroupReport(group.name, len(mutants), trials, time.monotonic() - began)
    report.print(explanations)
    return report


def _try_one(name: str, mutants: Mapping[Group, Sequence[Mutant]], jobs: int) -> int:
    every = [(one, group) for group, them in mutants.items() for one in them]
    found = [pair for pair in every if pair[0].name == name] or [pair for pair in every if name in pair[0].name]
    if len(found) != 1:
        print(f"{len(found)} mutants have this in their names", *(one.name for one, _ in found[:20]), sep="\n  ")
        return 1
    ((mutant, group),) = found
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    before, after = text.splitlines(keepends=True), mutant.applied(text).splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(before, after, mutant.file, "mutant"))
    reach = record(group.tests, jobs)
    print(f"reached by {len(reach.of(mutant))} tests", flush=True)
    (trial,) = try_mutants([mutant], reach, group.tests, 1)
    print(f"{trial.verdict} after {trial.seconds:.1f} s {trial.by}")
    return int(trial.is_survivor)


if __name__ == "__main__":
    sys.exit(main())
