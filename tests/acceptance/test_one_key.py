"""One key, many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onward import Onward
from onward.clock import SystemClock
from onward.drivers import connect
from onward.inspection import JobFilter

ROOT = Path(__file__).parents[2]


def start(home: Path, *, step: int = 0, forks: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.acceptance.enqueue_once", str(step), str(forks)],
        cwd=ROOT,
        env={**os.environ, "ACCEPTANCE_HOME": str(home), "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answers_of(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """Let all of them go at once, and give what each printed."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lines = []
    for process in processes:
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        lines += [line.split() for line in printed.splitlines()]
    return lines


def stored_with_key(home: Path, key: str) -> list[str]:
    store = connect(f"sqlite:///{home}/jobs.db", clock=SystemClock(), strict=False)
    try:
        return [job.id for job in store.find(JobFilter(key=key))]
    finally:
        store.close()


@pytest.mark.parametrize("step", [0, -3600], ids=["steady clock", "half of the clocks step back an hour"])
def test_fifty_processes_that_enqueue_one_key_hold_one_job(tmp_path: Path, step: int) -> None:
    """Check-then-insert would give some of them a job of their own."""
    lines = answers_of([start(tmp_path, step=step if number % 2 else 0) for number in range(50)])
    assert len(lines) == 50
    assert len({job_id for job_id, _ in lines}) == 1
    assert [is_new for _, is_new in lines].count("True") == 1
    assert stored_with_key(tmp_path, "7") == [lines[0][0]]


def test_processes_forked_from_one_that_had_used_its_store_hold_one_job(tmp_path: Path) -> None:
    """A connection or an id generator inherited across a fork would break the file or repeat ids."""
    lines = answers_of([start(tmp_path, forks=49)])
    assert len(lines) == 50
    assert len({job_id for job_id, _ in lines}) == 1
    assert stored_with_key(tmp_path, "7") == [lines[0][0]]
    app = Onward(f"sqlite:///{tmp_path}/jobs.db")
    assert all(finding.level != "error" for finding in app.store.examine())
    app.close()
