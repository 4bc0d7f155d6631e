"""An accepted change of a model has its file or a live job, whatever is killed and when."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onward.clock import SystemClock
from onward.drivers import connect
from onward.inspection import JobFilter
from onward.status import LIVE

ROOT = Path(__file__).parents[2]
PATIENCE = 120


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "EXAMPLE_FILES_HOME": str(home), "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}


def worker(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "onward", "-A", "examples.files.app:app", "worker", "--sweep", "1s", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the supervisor and its worker processes in one blow."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def write_until_killed(home: Path, first: int, writes: int) -> dict[str, int]:
    """Kill the writer after so many accepted writes; give the last number that was accepted of each model."""
    command = [sys.executable, "-m", "tests.acceptance.write_models", str(first)]
    accepted: dict[str, int] = {}
    with subprocess.Popen(command, cwd=ROOT, env=environment(home), stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(writes):
            model_id, number = writer.stdout.readline().split()
            accepted[model_id] = int(number)
        writer.kill()
        for line in writer.stdout:
            if line.endswith("\n"):
                model_id, number = line.split()
                accepted[model_id] = int(number)
    return accepted


def on_disk(home: Path, model_id: str) -> int:
    """The number in the model's file, or -1. A half-written file would not parse."""
    found = [path for path in home.rglob(f"{model_id}.json") if path.is_file()]
    return json.loads(found[0].read_text())["number"] if found else -1


def promised(home: Path) -> dict[str, int]:
    """The highest number of each model that a live job carries."""
    store = connect(f"sqlite:///{next(home.rglob('*.db'))}", clock=SystemClock(), strict=False)
    try:
        numbers: dict[str, int] = {}
        for job in store.find(JobFilter(statuses=tuple(LIVE), types=("write_model",)), limit=100_000):
            model = json.loads(json.loads(job.payload)["content"])
            numbers[model["id"]] = max(numbers.get(model["id"], -1), model["number"])
        return numbers
    finally:
        store.close()


@pytest.mark.timeout(300)
def test_no_accepted_model_change_is_without_its_file_or_a_live_job(tmp_path: Path) -> None:
    """The job is the acceptance; the file follows. SIGKILL of writer and workers at any moment leaves one or the other."""
    chance, first = random.Random(5), 0
    accepted: dict[str, int] = {}
    for _ in range(6):
        running = worker(tmp_path, "--processes", "2", "--concurrency", "2")
        try:
            accepted |= write_until_killed(tmp_path, first, writes=chance.randint(5, 60))
        finally:
            kill_all(running)
        live = promised(tmp_path)
        for model_id, number in accepted.items():
            assert max(on_disk(tmp_path, model_id), live.get(model_id, -1)) >= number, model_id
        first = max(accepted.values()) + 1

    # Leases of the killed must run out first; a worker started with --drain would not wait for them.
    store = connect(f"sqlite:///{next(tmp_path.rglob('*.db'))}", clock=SystemClock(), strict=False)
    for job in store.find(JobFilter(statuses=tuple(LIVE)), limit=100_000):
        if job.lease_owner is not None:
            store.recover(job.lease_owner, [job.id])
    store.close()
    assert worker(tmp_path, "--drain").wait(PATIENCE) == 0
    assert promised(tmp_path) == {}
    for model_id, number in accepted.items():
        assert on_disk(tmp_path, model_id) >= number
    reconciled = subprocess.run(
        [sys.executable, "-m", "onward", "-A", "examples.files.app:app", "reconcile"],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert reconciled.returncode == 0, reconciled.stdout
