"""A measurement of each kind, too small to say anything, but whole: what it counts must be what was done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.comparison import holds
from benchmarks.endurance import DELAY
from benchmarks.lines import Line, Side
from tests.torture.injectors import MissingInjector, do_without, strace

ROOT = Path(__file__).parents[2]
LONGEST_YARDSTICK = 40
"""Lines of code, without the imports: a yardstick that does more would no longer be what plain Python can reach."""


def measure(room: Path, name: str, *, scale: float = 0.01, runs: int = 1) -> dict[str, Any]:
    figures = room / "figures.json"
    chosen = ["--store", "sqlite", "--only", name, "--runs", str(runs), "--scale", str(scale)]
    options = [*chosen, "--folder", str(room), "--json", str(figures)]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *options], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode in (0, 1), done.stderr  # 1 where so small a run misses what is asked, which says nothing
    assert done.stderr == ""
    (result,) = json.loads(figures.read_text())["results"]
    assert result["name"] == name
    assert [path.name for path in room.iterdir()] == ["figures.json"]
    return dict(result)


@pytest.mark.parametrize(
    "name",
    ["drain, async, 1 process", "enqueue, 8 threads", "enqueue in bulk, with keys", "enqueue beside a drain", "drain beside enqueues"],
)
def test_a_small_measurement_gives_both_sides_and_their_ratio(tmp_path: Path, name: str) -> None:
    result = measure(tmp_path, name)
    figure = result["figure"]
    assert result["ratio"] == pytest.approx(result["onward"][figure] / result["against"][figure])
    assert "ran_again" not in result["onward"]


def test_four_processes_at_once_lose_no_job_and_are_refused_nothing(tmp_path: Path) -> None:
    result = measure(tmp_path, "four processes, both", scale=0.002)
    onward = result["onward"]
    assert onward["enqueued"] == onward["begun"] > 0
    assert (onward["errors"], onward["failed_turns"]) == (0, 0)
    assert onward["p50_us"] <= onward["p99_us"] <= onward["max_us"]
    assert result["holds"] is True


def test_memory_is_read_after_few_jobs_and_after_many_and_only_once(tmp_path: Path) -> None:
    result = measure(tmp_path, "memory after many", scale=0.002, runs=2)
    onward = result["onward"]
    assert onward["begun"] == 2_000
    assert onward["grown_mb"] == pytest.approx(onward["late_mb"] - onward["early_mb"])
    assert len(result["runs"]) == 1


def test_a_bulk_cancel_ends_all_that_it_was_meant_for_beside_a_worker(tmp_path: Path) -> None:
    """The measurement fails by itself where the counts do not add up."""
    result = measure(tmp_path, "pickup beside a bulk cancel, keyed", scale=0.05)
    assert result["onward"]["jobs"] > 0
    assert result["onward"]["cancel_rate"] > 0


def test_a_prune_is_measured_to_its_end(tmp_path: Path) -> None:
    result = measure(tmp_path, "whole prune of 10,000")
    assert result["onward"]["left"] == 0
    assert result["onward"]["rate"] > 0


def test_claims_are_measured_while_there_is_something_to_claim(tmp_path: Path) -> None:
    result = measure(tmp_path, "depth, claims among many")
    assert result["onward"]["claimed"] == result["against"]["claimed"] == 1_000


def test_on_a_slow_disk_no_request_is_faster_than_the_disk(tmp_path: Path) -> None:
    try:
        strace()
    except MissingInjector as reason:
        do_without(reason)
    result = measure(tmp_path, "enqueue, 32 threads, slow disk")
    assert min(result["onward"]["p50_us"], result["against"]["p50_us"]) >= DELAY


@pytest.mark.parametrize(
    ("ratio", "errors", "verdict"), [(0.5, 0.0, True), (0.5, 1.0, False), (0.4, 0.0, False), (None, 0.0, True), (None, 1.0, False)]
)
def test_a_line_holds_if_its_ratio_and_every_limit_do(ratio: float | None, errors: float, verdict: bool) -> None:
    line = Line(name="any", store="sqlite", onward=Side("onward", lambda place: {}), least=0.5, limits={"errors": 0.0})
    assert holds(line, ratio, {"errors": errors}) is verdict


@pytest.mark.parametrize("name", ["loop", "sqlite", "postgres"])
def test_a_yardstick_stays_a_yardstick(name: str) -> None:
    text = (ROOT / "benchmarks" / "raw" / f"{name}.py").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(('"""', "from ", "import "))]
    assert len(lines) <= LONGEST_YARDSTICK, f"{len(lines)} lines"
