"""System calls that fail: the n-th one once, for a while, and from then on, as SQLite's own tests do it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from msgspec import Struct

from tests.torture.aftermath import look_at
from tests.torture.promises import GONE, Said
from tests.torture.report import Report
from tests.torture.shop import job_id
from tests.torture.syscalls.outage import LAST
from tests.torture.syscalls.points import MODULE, Point, Rehearsal
from tests.torture.traced import run_python

PROGRAM = "meet_errors"
LASTS = {"once": "{0}", "a while": "{0}..{1}", "for ever": "{0}+"}
A_WHILE = 6
"""Calls."""
# Python opens files as well, so of those only one call fails; of locks too, since a whole process that gets none can do nothing.
FAULTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pwrite64": (("ENOSPC", "EIO"), tuple(LASTS)),
    "fdatasync": (("EIO", "ENOSPC"), tuple(LASTS)),
    "ftruncate": (("EIO", "ENOSPC"), tuple(LASTS)),
    "openat": (("EIO", "ENOSPC", "EROFS"), ("once",)),
    "unlink": (("EIO", "EROFS"), tuple(LASTS)),
    "fcntl": (("EIO", "ENOLCK"), ("once",)),
}
"""By call: what it fails with, and how often."""


class Error(Struct, frozen=True):
    """One way to fail: this call, with this error, that often."""

    point: Point
    error: str
    lasts: str

    @property
    def name(self) -> str:
        """What ``--only`` takes."""
        return f"{self.point.call}:{self.error}:{self.lasts}:{self.point.ordinal}"

    @property
    def when(self) -> str:
        return LASTS[self.lasts].format(self.point.ordinal, self.point.ordinal + A_WHILE)


def errors_of(points: Sequence[Point]) -> Iterator[Error]:
    """Every error at every point."""
    for point in points:
        if "F_UNLCK" in point.what:
            continue  # no file system of this machine refuses to take a lock back
        errors, lasts = FAULTS.get(point.call, ((), ()))
        for error in errors:
            yield from (Error(point, error, one) for one in lasts)


def fail(rehearsal: Rehearsal, error: Error, room: Path, report: Report) -> Report:
    """One case: run the program with the error, and hold it to what it said."""
    home, trace = room / error.name.replace(":", "-").replace(" ", "-"), room / f"trace-{error.name}"
    shutil.copytree(rehearsal.home, home)
    call = error.point.call
    tracing = ("--seccomp-bpf", "-o", str(trace), "-e", f"trace={call}", "-e", f"inject={call}:error={error.error}:when={error.when}")
    done = run_python([MODULE, PROGRAM, str(home)], *tracing)
    said = Said(chain(rehearsal.before, done.stdout.splitlines()))
    fired = trace.read_text(errors="replace").count("(INJECTED)")
    report.fired(f"{error.error} of {call} {error.lasts}", int(fired > 0))
    again = f"again: python -m tests.torture.syscalls --part storage --seed {report.seed} --only '{error.name}'"
    broken = judge(home, said, done.returncode, done.stderr, report, is_over=error.lasts != "for ever")
    if not fired:
        broken.insert(0, "the error was not injected")
    report.failures += [f"{error.name} ({error.point.what.strip():.90}): {line}; {again}" for line in broken[:3]]
    shutil.rmtree(home)
    trace.unlink()
    return report


def judge(home: Path, said: Said, code: int, stderr: str, report: Report, *, is_over: bool) -> list[str]:
    """What does not hold after a run of the program; count what it was told."""
    if code or not said.has_ended:
        return [f"the program ended with exit code {code}: {(stderr.strip().splitlines() or ['no word'])[-1]}"]
    report.count("runs")
    report.count("acknowledged", said.acknowledged)
    for note, number in said.notes.items():
        report.count(note, number)
    broken = []
    if is_over and said.allowed("job", job_id(LAST))[0] == GONE:
        broken.append("the fault was over, and the last enqueue was still refused")
    return broken + look_at(home, said)
