"""Storage that fails, all of it: errors of single calls, delays, places that cannot be written, and workers that outlast them."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from tests.torture.injectors import MissingInjector, is_ci, strace, strace_version
from tests.torture.pool import in_two_processes
from tests.torture.promises import Said
from tests.torture.report import Report, Tier, sqlite_versions
from tests.torture.syscalls import before
from tests.torture.syscalls.errors import PROGRAM, Error, errors_of, fail, judge
from tests.torture.syscalls.outlasting import JOBS, outlast
from tests.torture.syscalls.places import Place, full, limited, limited_later, prepared_jobs, read_only
from tests.torture.syscalls.points import MODULE, rehearse
from tests.torture.traced import compile_modules, run_python

SAMPLES: dict[Tier, int | None] = {"smoke": 3, "quick": 40, "release": None}
FREE: dict[Tier, tuple[int, ...]] = {
    "smoke": (20_000,),
    "quick": (0, 20_000, 120_000),
    "release": (0, 4_096, 20_000, 50_000, 90_000, 120_000, 160_000, 200_000),
}
"""Bytes that are left when a program begins."""
SLOW = 50_000
"""Microseconds that each fdatasync takes."""
PASSING = {
    "a worker, EIO of fdatasync": "fdatasync:error=EIO:when=1..2",
    "a worker, ENOSPC of pwrite64": "pwrite64:error=ENOSPC:when=1..2",
}
"""Faults that pass while a worker tries again; of each thread the first calls."""


MakePlace: TypeAlias = Callable[[Path], AbstractContextManager[Place]]


def break_storage(tier: Tier, seed: int, only: Sequence[str] = ()) -> Report:
    """As ``tests.torture.syscalls.run_storage``."""
    report = Report("storage", tier, seed, sqlite_versions() | {"strace": strace_version()})
    room, began = Path(tempfile.mkdtemp(prefix="onward-storage-")), perf_counter()
    try:
        compile_modules()
        _errors(tier, room, report, only)
        for name, work in _environments(tier, room, report).items():
            if not only or name in only:
                _unless_missing(name, work, report)
    finally:
        shutil.rmtree(room)
    report.seconds = perf_counter() - began
    return report


def _unless_missing(name: str, work: Callable[[], None], report: Report) -> None:
    """A fault that could not be injected is named; in CI it fails the run."""
    try:
        work()
    except MissingInjector as reason:
        report.count(f"left out: {name}: {reason}")
        if is_ci():
            report.failures.append(f"{name}: {reason}")


def _errors(tier: Tier, room: Path, report: Report, only: Sequence[str]) -> None:
    if only and not any(one.count(":") == 3 for one in only):
        return
    rehearsal = rehearse(PROGRAM, room / "rehearsal")
    every = list(errors_of(rehearsal.points))
    report.count("errors there are", len(every))
    chosen = [error for error in every if error.name in only] if only else _sample(every, SAMPLES[tier], report.seed)
    if len(chosen) < len([one for one in only if one.count(":") == 3]):
        report.failures.append(f"not all of these are there: {', '.join(only)}")
    cases = [(rehearsal, error, room, Report(report.name, tier, report.seed)) for error in chosen]
    for part in in_two_processes(fail, cases, here=report.tier == "smoke"):
        report.add(part)


def _sample(every: list[Error], many: int | None, seed: int) -> list[Error]:
    """Each kind of error first."""
    if many is None:
        return every
    shuffled = random.Random(seed).sample(every, len(every))
    kinds: dict[tuple[str, str, str], Error] = {}
    for error in shuffled:
        kinds.setdefault((error.point.call, error.error, error.lasts), error)
    return list(dict.fromkeys([*kinds.values(), *shuffled]))[:many]


def _environments(tier: Tier, room: Path, report: Report) -> dict[str, Callable[[], None]]:
    """Every other fault by its name; of a smoke run only a few."""
    places: dict[str, MakePlace] = {"read-only": partial(read_only, prepare=before.tables)}
    workers: dict[str, MakePlace] = {}
    for free in FREE[tier]:
        places[f"file-size limit, {free} bytes left"] = partial(limited, prepare=before.tables, free=free)
        places[f"full disk, {free} bytes left"] = partial(full, prepare=before.tables, free=free)
    passing = {}
    if tier != "smoke":
        jobs = prepared_jobs(JOBS)
        places["read-only, with a log to recover"] = partial(read_only, prepare=before.killed)
        workers["a worker, full disk"] = partial(full, prepare=jobs, free=0)
        workers["a worker, file-size limit"] = partial(limited_later, jobs=jobs)
        workers["a worker, read-only"] = partial(read_only, prepare=jobs)
        passing = PASSING
    works: dict[str, Callable[[], None]] = {name: partial(_meet, name, make, room, report) for name, make in places.items()}
    works |= {name: partial(_outlast, name, make, room, report) for name, make in workers.items()}
    works |= {name: partial(_pass_by, name, inject, room, report) for name, inject in passing.items()}
    if tier != "smoke":
        works["slow fdatasync"] = partial(_slow, room, report)
    return works


def _meet(name: str, make: MakePlace, room: Path, report: Report) -> None:
    """Run the program where it cannot write, mend that, and hold it to what it said."""
    with make(_own(room, name)) as place:
        done = run_python([MODULE, PROGRAM, str(place.home)], before=place.before)
        said = Said(chain(place.there, done.stdout.splitlines()))
        place.mend([])
        report.fired(name, int(bool(said.notes)))
        broken = judge(place.behind or place.home, said, done.returncode, done.stderr, report, is_over=False)
        report.failures += [f"{name}: {line}" for line in ([] if said.notes else ["nothing was refused"]) + broken[:3]]


def _slow(room: Path, report: Report) -> None:
    """Everything takes longer, and nothing is refused."""
    home, trace = _own(room, "slow") / "home", room / "slow" / "trace"
    home.mkdir()
    before.tables(home)
    tracing = ("--seccomp-bpf", "-o", str(trace), "-e", "trace=fdatasync", "-e", f"inject=fdatasync:delay_enter={SLOW}")
    done = run_python([MODULE, PROGRAM, str(home)], *tracing)
    said = Said(done.stdout.splitlines())
    report.fired("slow fdatasync", trace.read_text().count("(DELAYED)"))
    broken = judge(home, said, done.returncode, done.stderr, report, is_over=True)
    report.failures += [f"slow fdatasync: {line}" for line in broken + ([f"refused: {said.notes}"] if said.notes else [])]


def _outlast(name: str, make: MakePlace, room: Path, report: Report) -> None:
    own = _own(room, name)
    with make(own) as place:
        outlast(name, place, own, report)


def _pass_by(name: str, inject: str, room: Path, report: Report) -> None:
    """A fault that is over after some calls, whatever anybody does."""
    own = _own(room, name)
    home = own / "home"
    home.mkdir()
    prepared_jobs(JOBS)(home)
    tracer = [
        strace(),
        "-f",
        "--seccomp-bpf",
        "-o",
        str(own / "trace"),
        "-e",
        f"trace={inject.partition(':')[0]}",
        "-e",
        f"inject={inject}",
    ]
    outlast(name, Place(home, []), own, report, tracer, failures=1)


def _own(room: Path, name: str) -> Path:
    own = room / name.replace(" ", "-").replace(",", "")
    own.mkdir()
    return own
