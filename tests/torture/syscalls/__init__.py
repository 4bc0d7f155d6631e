"""Faults injected at system calls: SIGKILL at each one of small programs, and storage that fails."""

from __future__ import annotations

from collections.abc import Sequence

from tests.torture.report import Report, Tier


def run(tier: Tier = "quick", seed: int = 0, only: Sequence[str] = ()) -> Report:
    """SIGKILL at system calls of every program: a seeded sample of them, or each one (release).

    ``only`` names points (``enqueue:pwrite64:3``) or programs. Raises ``MissingInjector``.
    """
    # The programs are modules of this package, and should not load what runs them.
    from tests.torture.syscalls.kills import kill_everywhere

    return kill_everywhere(tier, seed, only)


def run_storage(tier: Tier = "quick", seed: int = 0, only: Sequence[str] = ()) -> Report:
    """Storage that fails: a seeded sample of errors of single calls, or each one (release); full, limited, slow and read-only places.

    ``only`` names errors (``pwrite64:EIO:once:3``) or places (``read-only``). Raises ``MissingInjector``.
    """
    from tests.torture.syscalls.storage import break_storage

    return break_storage(tier, seed, only)
