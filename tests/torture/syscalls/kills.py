"""Kill a program before one of its system calls, open what it left, and say what does not hold."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from time import perf_counter

from tests.torture.aftermath import look_at, recovered
from tests.torture.injectors import strace_version
from tests.torture.pool import in_two_processes
from tests.torture.promises import Said
from tests.torture.report import Report, Tier, sqlite_versions
from tests.torture.syscalls.points import MODULE, Point, Rehearsal, rehearse
from tests.torture.syscalls.programs import PLANTED, PROGRAMS
from tests.torture.traced import compile_modules, run_python

KILLED = -9
SAMPLES: dict[Tier, tuple[int | None, int | None]] = {"smoke": (2, 2), "quick": (None, 8), "release": (None, None)}
"""How many programs, and at how many points of each. None: all."""


def kill_everywhere(tier: Tier, seed: int, only: Sequence[str] = ()) -> Report:
    """As ``tests.torture.syscalls.run``."""
    report = Report("syscalls", tier, seed, sqlite_versions() | {"strace": strace_version()})
    began = perf_counter()
    with _room() as room:
        compile_modules()
        chance = random.Random(seed)
        programs = _programs(tier, chance, only)
        rehearsals = list(in_two_processes(rehearse, [(name, room / name) for name in programs], here=report.tier == "smoke"))
        report.count("programs", len(rehearsals))
        report.count("points", sum(len(one.points) for one in rehearsals))
        cases = [
            (one, point, room / "kills", Report("syscalls", tier, seed))
            for one in rehearsals
            for point in _choose(one.points, tier, chance, only)
        ]
        if only and not cases:
            report.failures.append(f"there is no such point: {', '.join(only)}")
        for part in in_two_processes(kill, cases, here=report.tier == "smoke"):
            report.add(part)
        if tier != "smoke" and not only:
            _find_planted(room, report)
    report.seconds = perf_counter() - began
    return report


def kill(rehearsal: Rehearsal, point: Point, room: Path, report: Report) -> Report:
    """One case: copy the prepared home, kill before the call, look at what is left."""
    home = room / point.name.replace(":", "-")
    shutil.copytree(rehearsal.home, home)
    tracing = ("-o", os.devnull, "-e", f"trace={point.call}", "-e", f"inject={point.call}:signal=KILL:when={point.ordinal}")
    done = run_python([MODULE, point.program, str(home)], *tracing)
    said = Said(chain(rehearsal.before, done.stdout.splitlines()))
    if done.returncode != KILLED or not said.has_begun:
        why = (done.stderr.strip().splitlines() or ["it was not killed where it was to be"])[-1]
        report.failures.append(f"{point.name}: exit code {done.returncode}: {why}")
        return report
    report.fired(f"SIGKILL at {point.call}")
    report.count("kills")
    report.count("acknowledged", said.acknowledged - sum(line.startswith("is ") for line in rehearsal.before))
    report.failures += [f"{point.name} ({point.what.strip()}): {line}; {replay(report.seed, point)}" for line in _judge(home, said, report)]
    shutil.rmtree(home)
    return report


def find_planted(program: str, room: Path, seed: int) -> Report:
    """Kill a program with a planted fault before one write after the other, until that is found."""
    report = Report(f"planted: {program}", "smoke", seed)
    rehearsal = rehearse(program, room)
    for point in sorted(rehearsal.points, key=lambda point: point.call != "write"):
        if point.call in ("write", "pwrite64") and not report.failures:
            kill(rehearsal, point, room / "kills", report)
    return report


def _find_planted(room: Path, report: Report) -> None:
    for program in PLANTED:
        if find_planted(program, room / program, report.seed).failures:
            report.count("planted faults found")
        else:
            report.failures.append(f"the planted fault was not found: {program}")


def replay(seed: int, point: Point) -> str:
    """The command that does it again."""
    return f"again: python -m tests.torture.syscalls --part kills --seed {seed} --only {point.name}"


def _judge(home: Path, said: Said, report: Report) -> list[str]:
    broken = look_at(home, said, works_on=False)
    if not broken:
        report.count("recovered", recovered(home, said))
        broken = look_at(home, said)
    return broken


def _programs(tier: Tier, chance: random.Random, only: Sequence[str]) -> list[str]:
    if only:
        return sorted({one.partition(":")[0] for one in only})
    many = SAMPLES[tier][0]
    return list(PROGRAMS) if many is None else chance.sample(list(PROGRAMS), many)


def _choose(points: Sequence[Point], tier: Tier, chance: random.Random, only: Sequence[str]) -> list[Point]:
    """One of each call first, so that a sample is not all locks; then others by chance."""
    if only:
        return [point for point in points if point.name in only or point.program in only]
    many = SAMPLES[tier][1]
    if many is None or many >= len(points):
        return list(points)
    shuffled = chance.sample(list(points), len(points))
    kinds: dict[str, Point] = {}
    for point in shuffled:
        kinds.setdefault(point.call, point)
    firsts = list(kinds.values())
    return (firsts + [point for point in shuffled if point not in firsts])[:many]


@contextmanager
def _room() -> Iterator[Path]:
    room = Path(tempfile.mkdtemp(prefix="onward-kills-"))
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
