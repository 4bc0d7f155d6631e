"""The conformance suite in the hands of somebody who writes a driver: a package of its own that knows only what is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DRIVER = '''
"""A third-party driver: it may be anything that is a Store."""

from onward.drivers.memory import MemoryStore


class ShelfStore(MemoryStore):
    """Jobs on a shelf."""
'''
TESTS = """
import pytest

from onward.testing import FakeClock
from onward.testing.conformance import *
from shelf.driver import ShelfStore


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock):
    store = ShelfStore(clock=clock)
    yield store
    store.close()
"""
BROKEN = """
    def cancel(self, job_id, *, owner=None):
        return super().cancel(job_id)
"""


def run_suite(folder: Path, driver: str) -> subprocess.CompletedProcess[str]:
    """Run the suite over this driver, in a process that sees nothing of this repository's tests."""
    package = folder / "shelf"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "driver.py").write_text(driver)
    (folder / "test_shelf.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--rootdir",
        str(folder),
        "test_shelf.py",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)


def test_a_driver_of_an_outside_package_passes_the_shipped_suite(tmp_path: Path) -> None:
    """Two fixtures and one import are all that it takes."""
    done = run_suite(tmp_path, DRIVER)
    assert done.returncode == 0, done.stdout[-2000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 300


def test_the_suite_finds_a_driver_that_forgets_owners(tmp_path: Path) -> None:
    """A suite that cannot fail would prove nothing."""
    done = run_suite(tmp_path, DRIVER + BROKEN)
    assert done.returncode == 1
    assert "test_a_foreign_job_and_a_missing_one_are_the_same[cancel]" in done.stdout
