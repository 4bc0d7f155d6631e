"""Where a program can be killed: before each of its system calls that changes a file, makes one durable, or takes a lock."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from onward.status import Status
from tests.torture.promises import GONE
from tests.torture.syscalls.programs import PLANTED, PROGRAMS
from tests.torture.traced import LOCKS, NAMES, SYNCS, WRITES, Call, read_calls, run_python

MODULE = "tests.torture.syscalls.programs"
CALLS = (*WRITES, *SYNCS, *NAMES, *LOCKS, "fchmod", "fchown")
_TO_WRITE = re.compile(r"O_(CREAT|RDWR|WRONLY)")


class Point(Struct, frozen=True):
    """The ``ordinal``-th call of that name which a thread of the program makes, from its start on."""

    program: str
    call: str
    ordinal: int
    what: str = ""
    """The line of the call, for people."""

    @property
    def name(self) -> str:
        """What ``--only`` takes."""
        return f"{self.program}:{self.call}:{self.ordinal}"


class Rehearsal(Struct, frozen=True):
    """A program that was run once to its end: what was there before it, and where it can be killed."""

    program: str
    home: Path
    """Is copied for each kill."""
    before: tuple[str, ...]
    """What was there, as lines of ``tests.torture.promises``."""
    points: tuple[Point, ...]


def rehearse(program: str, room: Path) -> Rehearsal:
    """Prepare a program below ``room``, run a copy of it under strace, and find its points."""
    home, tried, trace = room / "home", room / "tried", room / "trace"
    home.mkdir(parents=True)
    (PROGRAMS | PLANTED)[program].prepare(home)
    shutil.copytree(home, tried)
    tracing = ("--seccomp-bpf", "-s", "48", "-o", str(trace), "-e", f"trace={','.join(CALLS)}")
    done = run_python([MODULE, program, str(tried)], *tracing)
    assert done.returncode == 0, f"{program} cannot even be run: {done.stderr[-2000:]}"
    return Rehearsal(program, home, tuple(what_is_there(home)), tuple(find_points(program, read_calls(trace))))


def find_points(program: str, calls: Iterable[Call]) -> list[Point]:
    """Number the calls of the program's first thread, and keep those after it said that it begins."""
    counted: Counter[str] = Counter()
    points: list[Point] = []
    has_begun, first = False, None
    for call in calls:
        first = first or call.pid
        if call.pid != first or not call.begins:
            continue
        counted[call.name] += 1
        if has_begun and _matters(call):
            points.append(Point(program, call.name, counted[call.name], f"{call.name}{call.text[:110]}"))
        has_begun = has_begun or (call.name == "write" and '"begin\\n"' in call.text)
    return points


def _matters(call: Call) -> bool:
    if call.name == "openat":
        return _TO_WRITE.search(call.text) is not None
    return call.name != "fcntl" or "F_SETLK" in call.text


def what_is_there(home: Path) -> list[str]:
    """Acknowledge what a prepared home holds, and announce the files of its jobs: whoever runs those, ours or the one that comes after it.

    It is looked at in a copy, since reading recovers and removes the log of a dead process.
    """
    base = home / "base"
    said = [f"is file:{path.relative_to(base)} {path.read_text()}" for path in base.rglob("*") if path.is_file()]
    with TemporaryDirectory(prefix="onward-copy-") as room:
        copy = Path(shutil.copytree(home, Path(room) / "home"))
        if not (copy / "jobs.db").exists():
            return said
        with closing(sqlite3.connect(copy / "jobs.db")) as connection:
            for id_, type_, status, payload in connection.execute("SELECT id, type, status, payload FROM onward_jobs"):
                said.append(f"is job:{id_} {status}")
                if type_ in ("create_file", "delete_file") and Status(status).is_live:
                    job = json.loads(payload)
                    said.append(f"will file:{job['path']} {job.get('content', GONE)}")
    return said
