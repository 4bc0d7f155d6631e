"""``python -m tests.torture.PART``: run a part by hand, or one case of it again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TypeAlias, get_args

from tests.torture.injectors import MissingInjector, is_ci
from tests.torture.report import Report, Tier

Part: TypeAlias = Callable[[Tier, int, Sequence[str]], Report]
MISSING = 77
"""Exit code where an injector is missing and nobody said that it must be there."""


def main(**parts: Part) -> int:
    """Run what the command line asks for. Gives the exit code: 0 when all passed."""
    parser = argparse.ArgumentParser(description="Break things on purpose, and say what did not hold.")
    parser.add_argument("--tier", choices=get_args(Tier), default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=[*parts], help="otherwise all of them")
    parser.add_argument("--only", action="append", default=[], help="a case, as a failure names it; may be given more than once")
    asked = parser.parse_args()
    try:
        reports = [part(asked.tier, asked.seed, asked.only) for name, part in parts.items() if asked.part in (None, name)]
    except MissingInjector as reason:
        print(reason)
        return 1 if is_ci() else MISSING
    for report in reports:
        report.print()
    return 0 if all(report.has_passed for report in reports) else 1
