"""Record the workloads, cut the power in thousands of ways, and see that planted faults are found."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import msgspec

from tests.torture.injectors import strace_version
from tests.torture.pool import AT_ONCE, in_two_processes
from tests.torture.power_loss.record import record
from tests.torture.power_loss.states import Recording, Share, look_at_states
from tests.torture.report import Report, Tier, sqlite_versions
from tests.torture.traced import compile_modules

Part = tuple[str, int, int, int]
"""A workload, how often it is recorded (each time with another seed), its steps, and the states of all its recordings."""
TIERS: dict[Tier, tuple[Part, ...]] = {
    "smoke": (("store", 1, 8, 60), ("files", 1, 3, 40)),
    "quick": (("store", 1, 40, 500), ("files", 1, 12, 200), ("crowd", 1, 12, 300)),
    "release": (("store", 6, 60, 11_600), ("files", 4, 25, 4_000), ("crowd", 4, 25, 5_000)),
}
PLANTS = (("store", "synchronous=NORMAL"), ("files", "file not synced"), ("files", "directory not synced"))
PLANTED_STEPS, PLANTED_STATES = 8, 150
WORKS_ON_EVERY = 10
NOT_MODELLED = "the -shm file is dropped, names of one directory come back in their order, no file system's own faults"
ABOUT = "recording.json"


def cut_everywhere(tier: Tier, seed: int, only: Sequence[str] = ()) -> Report:
    """As ``tests.torture.power_loss.run``."""
    report = Report("power loss", tier, seed, sqlite_versions() | {"strace": strace_version(), "not modelled": NOT_MODELLED})
    began = perf_counter()
    if only:
        _replay(only, report)
    else:
        room = Path(tempfile.mkdtemp(prefix="onward-recordings-"))
        compile_modules()
        _cut(TIERS[tier], room, report)
        if tier != "smoke":
            for workload, plant in PLANTS:
                _plant(workload, plant, room, report)
        if not report.failures:
            shutil.rmtree(room)
    report.seconds = perf_counter() - began
    return report


def find_planted(workload: str, plant: str, room: Path, seed: int) -> Report:
    """Record a workload with a fault built in, and cut the power until that is found."""
    report = Report(f"planted: {plant}", "smoke", seed)
    recording = record(workload, room, seed, PLANTED_STEPS, plant)
    return look_at_states(Share(recording, 0, 1, PLANTED_STATES, WORKS_ON_EVERY, stops_at_first=True), seed, report)


def _cut(parts: Sequence[Part], room: Path, report: Report) -> None:
    asked = [
        (workload, room / f"{workload}-{number}", report.seed * 100 + number, steps)
        for workload, many, steps, _ in parts
        for number in range(many)
    ]
    recordings = list(in_two_processes(record, asked, here=report.tier == "smoke"))
    for recording in recordings:
        (Path(recording.room) / ABOUT).write_bytes(msgspec.json.encode(recording))
        report.count("points", recording.points)
    report.count("recordings", len(recordings))
    share_of = {workload: states // many // AT_ONCE for workload, many, _, states in parts}
    shares = [
        (Share(recording, remainder, AT_ONCE, share_of[recording.workload], WORKS_ON_EVERY), report.seed, _empty(report))
        for recording in recordings
        for remainder in range(AT_ONCE)
    ]
    for part in in_two_processes(look_at_states, shares, here=report.tier == "smoke"):
        report.add(part)


def _plant(workload: str, plant: str, room: Path, report: Report) -> None:
    found = find_planted(workload, plant, room / plant.replace(" ", "-"), report.seed)
    if found.failures:
        report.count("planted faults found")
    else:
        report.failures.append(f"the planted fault was not found: {plant}, in {found.counts.get('states', 0)} states of {workload}")


def _replay(only: Sequence[str], report: Report) -> None:
    """Cases as failures name them: the directory of a recording, a point, a pass."""
    for one in only:
        place, point, number = one.rsplit(":", 2)
        recording = msgspec.json.decode((Path(place) / ABOUT).read_bytes(), type=Recording)
        share = Share(recording, 0, 1, 1, 1, ((int(point), int(number)),))
        report.add(look_at_states(share, report.seed, _empty(report)))


def _empty(report: Report) -> Report:
    return Report(report.name, report.tier, report.seed)
