"""What a torture run did, what it broke, and what did not hold."""

from __future__ import annotations

import platform
import sqlite3
import sys
from typing import Literal, TextIO, TypeAlias

from msgspec import Struct, field

from tests.torture.injectors import MissingInjector, is_ci

Tier: TypeAlias = Literal["smoke", "quick", "release"]
"""How much of a part is run: a few seconds of it (``make test``), a minute (``make torture``), or all (``make torture-release``)."""


class Report(Struct):
    """One run of one part. It passes when faults were injected and nothing is among the failures."""

    name: str
    tier: Tier
    seed: int
    versions: dict[str, str] = field(default_factory=dict)
    """Programs and settings that the result depends on."""
    counts: dict[str, int] = field(default_factory=dict)
    """What was done and seen: kills, states, acknowledged, unknown, recovered."""
    faults: dict[str, int] = field(default_factory=dict)
    """How often each kind of fault was really injected."""
    missing: dict[str, str] = field(default_factory=dict)
    """Faults that could not be injected here, and why."""
    failures: list[str] = field(default_factory=list)
    """One line for each promise that did not hold, with what replays it."""
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """``passed``, or why not. A run in which no fault fired has shown nothing."""
        if self.failures:
            return f"FAILED: {len(self.failures)} of what must hold did not"
        return "passed" if sum(self.faults.values()) else "FAILED: no fault fired, so nothing was shown"

    @property
    def has_passed(self) -> bool:
        return self.verdict == "passed"

    def count(self, what: str, by: int = 1) -> None:
        """Add to one of the counts."""
        self.counts[what] = self.counts.get(what, 0) + by

    def fired(self, fault: str, by: int = 1) -> None:
        """A fault was injected."""
        self.faults[fault] = self.faults.get(fault, 0) + by

    def lacks(self, fault: str, reason: MissingInjector) -> None:
        """A fault could not be injected. That is a failure where every injector must be there."""
        self.missing[fault] = str(reason)
        if is_ci():
            self.failures.append(f"the fault {fault!r} could not be injected: {reason}")

    def add(self, other: Report) -> None:
        """Take in what a part of the same run did."""
        for what, number in other.counts.items():
            self.count(what, number)
        for fault, number in other.faults.items():
            self.fired(fault, number)
        self.missing |= other.missing
        self.failures += other.failures

    def __str__(self) -> str:
        lines = [
            f"{self.name}, tier {self.tier}, seed {self.seed}: {self.verdict} ({self.seconds:.1f} s)",
            _line("on", self.versions),
            _line("counted", {name: f"{number:,}" for name, number in self.counts.items()}),
            _line("faults", {name: f"{number:,}" for name, number in self.faults.items()}),
            *[f"  not injected: {fault}, since {reason}" for fault, reason in sorted(self.missing.items())],
            *[f"  failed: {failure}" for failure in self.failures],
        ]
        return "\n".join(lines)

    def print(self, file: TextIO | None = None) -> None:
        """Write the report, in a few lines."""
        print(self, file=file or sys.stdout, flush=True)


def _line(head: str, values: dict[str, str]) -> str:
    return f"  {head}: " + (", ".join(f"{name} {value}" for name, value in sorted(values.items())) or "nothing")


def sqlite_versions() -> dict[str, str]:
    """What every report on a SQLite file names."""
    return {
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "kernel": platform.release(),
        "journal_mode": "WAL",
        "synchronous": "FULL",
    }
