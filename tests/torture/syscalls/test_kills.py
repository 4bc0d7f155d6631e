"""A process killed before any system call has lost nothing that it acknowledged, and nothing half done is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture.injectors import MissingInjector, do_without, strace
from tests.torture.report import Report
from tests.torture.syscalls import run
from tests.torture.syscalls.kills import find_planted, kill
from tests.torture.syscalls.points import Point, find_points, rehearse
from tests.torture.syscalls.programs import PLANTED
from tests.torture.traced import Call

SEED = 1


@pytest.fixture(autouse=True)
def injector() -> None:
    try:
        strace()
    except MissingInjector as reason:
        do_without(reason)


def test_a_sample_of_kills_loses_nothing() -> None:
    """The whole is run by ``make torture`` and ``make torture-release``."""
    report = run("smoke", SEED)
    report.print()
    assert report.has_passed, str(report)
    assert report.counts["kills"] == sum(report.faults.values()) == 4


@pytest.mark.parametrize("program", PLANTED)
def test_a_planted_fault_is_found(program: str, tmp_path: Path) -> None:
    """Else a passed run says nothing."""
    report = find_planted(program, tmp_path, SEED)
    assert report.failures, str(report)
    assert f"--only {program}:" in report.failures[0]


def test_a_kill_that_does_not_come_is_a_failure(tmp_path: Path) -> None:
    rehearsal = rehearse("enqueue", tmp_path)
    report = kill(rehearsal, Point("enqueue", "fdatasync", 1000), tmp_path / "kills", Report("kills", "smoke", SEED))
    assert report.failures == ["enqueue:fdatasync:1000: exit code 0: it was not killed where it was to be"]
    assert not report.has_passed


@pytest.mark.parametrize("program", ["create_file", "replace_file", "delete_file"])
def test_a_job_on_a_file_may_be_run_by_whoever_comes_after(program: str, tmp_path: Path) -> None:
    """Killed at its first word, a program has done nothing, and the file is still made or removed in the end."""
    rehearsal = rehearse(program, tmp_path)
    first = next(point for point in rehearsal.points if point.call == "write")
    report = kill(rehearsal, first, tmp_path / "kills", Report("kills", "smoke", SEED))
    assert report.has_passed, str(report)


def calls(*lines: str) -> Iterator[Call]:
    for line in lines:
        pid, rest = line.split(" ", 1)
        name, text = rest.split("(", 1)
        yield Call(int(pid), name, f"({text}")


def test_points_are_counted_from_the_start_and_lie_behind_the_beginning() -> None:
    """Strace counts the calls of the interpreter's own start as well."""
    points = find_points(
        "enqueue",
        calls(
            '7 openat(AT_FDCWD, "/lib/a.py", O_RDONLY) = 3',
            '7 write(1, "begin\\n", 6) = 6',
            '7 openat(AT_FDCWD, "/home/jobs.db", O_RDWR|O_CREAT, 0600) = 3',
            '7 openat(AT_FDCWD, "/home/other", O_RDONLY) = 4',
            '8 pwrite64(3, "x", 1, 0) = 1',
            "7 fcntl(3, F_GETFD) = 0",
            "7 fcntl(3, F_SETLK, {}) = 0",
            "7 fdatasync(3) = 0",
        ),
    )
    assert [point.name for point in points] == ["enqueue:openat:2", "enqueue:fcntl:2", "enqueue:fdatasync:1"]
