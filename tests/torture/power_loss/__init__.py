"""Power loss as the replay of a trace: what a disk may hold after each system call of a program, opened and compared with its promises."""

from __future__ import annotations

from collections.abc import Sequence

from tests.torture.report import Report, Tier


def run(tier: Tier = "quick", seed: int = 0, only: Sequence[str] = ()) -> Report:
    """Cut the power of recorded workloads in 100 (smoke), 1,000 (quick) or 20,000 (release) different ways.

    ``only`` names cases as a failure does. Raises ``MissingInjector``.
    """
    # The workloads are modules of this package, and should not load what records them.
    from tests.torture.power_loss.cuts import cut_everywhere

    return cut_everywhere(tier, seed, only)
