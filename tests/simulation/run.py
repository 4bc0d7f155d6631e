"""Many histories one after the other, and what they come to."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tests.simulation.fleet import simulation
from tests.torture.report import Report, sqlite_versions

MEMORY = Path("/dev/shm")
"""Nothing is to survive a power loss here, so a file in memory will do."""


def simulate(seeds: Iterable[int], bug: str = "") -> Report:
    """Run one history for each seed, in this process."""
    report = Report(name="simulated histories", tier="quick", seed=0, versions=sqlite_versions() | {"store": "a file in memory"})
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder,
        simulation(Path(folder), bug) as made,
    ):
        for seed in seeds:
            broken, world = made.run(seed)
            report.count("histories")
            report.count("events", len(world.events))
            for kind in ("ok", "started", "ended"):
                report.count({"ok": "accepted"}.get(kind, kind), sum(event.kind == kind for event in world.events))
            for event in world.events:
                if event.kind == "fault":
                    report.fired(event.what)
            report.failures += [f"history {seed}: {case}" for case in broken]
            if bug and broken:
                break
    return report


def simulate_together(seed: int, histories: int, processes: int) -> Report:
    """The histories of so many seeds, in several processes."""
    began = time.monotonic()
    shares = [list(islice(range(seed, seed + histories), number, None, processes)) for number in range(processes)]
    total = Report(name="simulated histories", tier="quick", seed=seed)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for part in pool.imap_unordered(simulate, shares):
            total.versions = part.versions
            total.add(part)
    total.seconds = time.monotonic() - began
    return total
