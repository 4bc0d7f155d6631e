"""Storage that fails: what is refused is not stored, what is unknown is settled by asking again, and all goes on afterwards."""

from __future__ import annotations

import pytest

from tests.torture.injectors import MissingInjector, do_without, mount_tool, strace
from tests.torture.syscalls import run_storage
from tests.torture.syscalls.errors import errors_of
from tests.torture.syscalls.points import Point

SEED = 1


@pytest.fixture(autouse=True)
def injectors() -> None:
    try:
        strace()
        mount_tool()
    except MissingInjector as reason:
        do_without(reason)


def test_a_sample_of_storage_faults_breaks_no_promise() -> None:
    """The whole is run by ``make torture`` and ``make torture-release``."""
    report = run_storage("smoke", SEED)
    report.print()
    assert report.has_passed, str(report)
    assert report.counts["runs"] == len(report.faults) == 6
    assert report.counts["StoreUnavailable"] > 0


def test_a_worker_goes_on_once_there_is_room_on_the_disk_again() -> None:
    report = run_storage("quick", SEED, ["a worker, full disk"])
    assert report.has_passed, str(report)
    assert report.counts == {"workers that went on": 1}


def test_every_call_fails_once_for_a_while_and_for_ever() -> None:
    """But for those where nothing could be learnt from it."""
    names = [error.name for error in errors_of([Point("p", "fdatasync", 3), Point("p", "fcntl", 4, "F_SETLK, {F_UNLCK}")])]
    assert names == [f"fdatasync:{error}:{lasts}:3" for error in ("EIO", "ENOSPC") for lasts in ("once", "a while", "for ever")]
    assert [error.when for error in errors_of([Point("p", "ftruncate", 3)])][:3] == ["3", "3..9", "3+"]
