"""Plant each bug in a copy of the project, and see that it is caught: ``python -m tests.planted``, ``--only NAME`` for one."""

from __future__ import annotations

import argparse
import sys

from tests.planted.bugs import BUGS
from tests.planted.plant import catch
from tests.torture.injectors import MissingInjector, is_ci, strace

TAIL = 30
"""Lines that are shown of a catcher that did not catch."""


def main() -> int:
    """Print what became of each; 1 if one was not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--only", choices=[bug.patch for bug in BUGS])
    asked = parser.parse_args()
    planted = missed = 0
    for bug in BUGS:
        if asked.only not in (None, bug.patch):
            continue
        if bug.needs_injector:
            try:
                strace()
            except MissingInjector as missing:
                print(f"{bug.patch}: not planted: {missing}", flush=True)
                missed += is_ci()
                continue
        planted += 1
        caught = catch(bug)
        print(caught, flush=True)
        if not caught.is_caught:
            missed += 1
            print("\n".join(caught.output.splitlines()[-TAIL:]), flush=True)
    print(f"{planted} planted bugs, {missed} not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
