"""A weak test leaves survivors, and a strong one kills them: in functions, in what runs at import, and in SQL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutant import ROOT

# In a process of its own, since it must not have imported the library.
SCRIPT = """
import json, sys
from tests.mutation.groups import GROUPS
from tests.mutation.reach import record
from pathlib import Path
from tests.mutation.session import Tests
from tests.mutation.trial import try_mutants

name, *paths = sys.argv[1:]
tests = Tests(tuple(paths))
mutants = [one for group in GROUPS for one in group.mutants() if one.name == name]
reach = record(tests, 1, Path(paths[0]).parent / 'kept')
(trial,) = try_mutants(mutants, reach, tests, 1)
print(json.dumps([trial.verdict, trial.by, reach.failed]))
"""
WEAK = """
from datetime import timedelta
from onward.durations import format_duration, parse_duration

def test_seconds():
    assert parse_duration("5s") == timedelta(seconds=5)
"""
STRONG = """
from datetime import timedelta
import pytest
from onward.durations import parse_duration

@pytest.mark.parametrize(("text", "duration"), [("0s", timedelta(0)), ("5m", timedelta(minutes=5))])
def test_more(text, duration):
    assert parse_duration(text) == duration
"""
WEAK_OF_A_STORE = """
from datetime import timedelta
import pytest
from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.testing.factories import make_new_job
from onward.turn import Demand

@pytest.fixture
def store(tmp_path):
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    yield store
    store.close()

def claims(store):
    demand = Demand(lease_owner="a", slots=5, types={"copy": timedelta(minutes=1)})
    return store.turn(demand=demand).claims

def test_a_job_is_claimed(store):
    store.enqueue([make_new_job("copy")])
    assert len(claims(store)) == 1
"""
STRONG_OF_A_STORE = """

def test_a_later_job_is_not(store):
    store.enqueue([make_new_job("copy"), make_new_job("copy", delay=timedelta(hours=1))])
    assert len(claims(store)) == 1
"""
LOOKS_AT_A_CONSTANT = """
from datetime import timedelta
from onward import jobs

def test_the_longest_lease():
    assert jobs.LONGEST_LEASE == timedelta(hours=24)
"""
BOUNDARY = "durations:parse_duration: <= → < in timedelta(0) <= duration <= LONGEST"
AT_IMPORT = "durations: 1 → 1 + 1 (3)"
DUE = "drivers/sqlite/statements:due: scheduled_at <= :now → true"


def try_one(name: str, folder: Path, **tests: str) -> tuple[str, str]:
    for file, text in tests.items():
        (folder / f"{file}.py").write_text(text)
    asked = [sys.executable, "-c", SCRIPT, name, *(str(folder / f"{file}.py") for file in tests)]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict, by, failed = json.loads(done.stdout.splitlines()[-1])
    assert failed == []
    return verdict, by.partition("::")[2]


@pytest.mark.parametrize("name", [BOUNDARY, AT_IMPORT])
def test_a_weak_test_leaves_a_survivor_of_python_and_a_strong_one_does_not(tmp_path: Path, name: str) -> None:
    assert try_one(name, tmp_path, test_weak=WEAK)[0] == "survived"
    verdict, by = try_one(name, tmp_path, test_weak=WEAK, test_strong=STRONG)
    assert (verdict, by.partition("[")[0]) == ("killed", "test_more")


def test_a_weak_test_leaves_a_survivor_of_sql_and_a_strong_one_does_not(tmp_path: Path) -> None:
    assert try_one(DUE, tmp_path, test_weak=WEAK_OF_A_STORE)[0] == "survived"
    assert try_one(DUE, tmp_path, test_strong=WEAK_OF_A_STORE + STRONG_OF_A_STORE) == ("killed", "test_a_later_job_is_not")


def test_a_test_that_only_looks_at_a_constant_kills_what_changes_it(tmp_path: Path) -> None:
    """It runs no line of the library, so that nothing is recorded of it but what it imports."""
    assert try_one("jobs: 1 → 1 + 1", tmp_path, test_bounds=LOOKS_AT_A_CONSTANT) == ("killed", "test_the_longest_lease")


def test_what_no_test_reaches_is_said_to_be_so(tmp_path: Path) -> None:
    assert try_one("durations:format_duration: < → <= in left < 0", tmp_path, test_weak=WEAK)[0] == "unreached"


def test_a_test_that_fails_anyway_kills_nothing(tmp_path: Path) -> None:
    """Else every mutant that it reaches would seem to be noticed."""
    asked = [sys.executable, "-c", SCRIPT, BOUNDARY, str(tmp_path / "test_wrong.py")]
    (tmp_path / "test_wrong.py").write_text(WEAK.replace("seconds=5", "seconds=6"))
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    verdict, _, failed = json.loads(done.stdout.splitlines()[-1])
    assert (verdict, [one.partition("::")[2] for one in failed]) == ("unreached", ["test_seconds"])


def test_a_recording_that_came_to_no_end_proves_nothing(tmp_path: Path) -> None:
    """Else every mutant would seem to be reached by no test; also in the next run, which reads what this one has kept."""
    (tmp_path / "test_fatal.py").write_text("import os\n\ndef test_it():\n    os._exit(1)\n")
    asked = [sys.executable, "-c", SCRIPT, BOUNDARY, str(tmp_path / "test_fatal.py")]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "its process ended in" in done.stdout + done.stderr
    assert "::test_it" in done.stdout + done.stderr
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_failure_outside_the_test_itself_is_noticed_too(tmp_path: Path) -> None:
    """A mutant that uses up the memory makes the report of its failure fail as well."""
    (tmp_path / "conftest.py").write_text(
        "def pytest_runtest_makereport(item, call):\n    from onward.durations import parse_duration\n    parse_duration('0s')\n"
    )
    assert try_one(BOUNDARY, tmp_path, test_weak=WEAK) == ("killed", "test_seconds")
