"""How long the machine runs, and how a failure is replayed.

``make test`` runs the normal profile; ``ONWARD_TEST_TIER=release`` the one before a release. With ``CI=true`` the examples are the same in
every run, so that the run itself is the replay. Elsewhere they differ each time; what has failed is kept in ``.hypothesis`` and comes first
in the next run, and the line ``@reproduce_failure(...)`` that is printed runs it anywhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.rules import small_caps
from tests.state_machine.machine import StoresAgree

IS_CI = os.environ.get("CI") == "true"
IS_RELEASE = os.environ.get("ONWARD_TEST_TIER") == "release"
HOURS = 6 * 3600


def profile(examples: int, steps: int, *, is_planted: bool = False) -> settings:
    """Say how many examples are run, of how many steps at most. A planted fault is to be found, and its example need not be short."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=IS_CI or is_planted,
        database=None if is_planted else settings().database,
        phases=[Phase.generate] if is_planted else list(Phase),
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def run(machine: Callable[[], StoresAgree], chosen: settings) -> None:
    """Run a machine. The rules count to less meanwhile, so that fifty steps reach their bounds; it is the same for all stores."""
    with small_caps():
        run_state_machine_as_test(machine, settings=chosen)  # type: ignore[arg-type]  # a function that makes one does as well
