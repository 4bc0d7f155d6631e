"""A measurement of each kind, too small to say anything, but whole: what it counts must be what was done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_YARDSTICK = 40
"""Lines of code, without the imports: a yardstick that does more would no longer be what plain Python can reach."""


@pytest.mark.parametrize("name", ["drain, async, 1 process", "enqueue, 8 threads", "enqueue in bulk, with keys"])
def test_a_small_measurement_gives_both_sides_and_their_ratio(tmp_path: Path, name: str) -> None:
    figures = tmp_path / "figures.json"
    options = ["--store", "sqlite", "--only", name, "--runs", "1", "--scale", "0.01", "--folder", str(tmp_path), "--json", str(figures)]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *options], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode in (0, 1), done.stderr  # 1 where so small a run misses a ratio, which says nothing
    assert done.stderr == ""
    (result,) = json.loads(figures.read_text())["results"]
    assert result["name"] == name
    assert result["ratio"] == pytest.approx(result["onward"]["rate"] / result["against"]["rate"])
    assert "ran_again" not in result["onward"]
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


@pytest.mark.parametrize("name", ["loop", "sqlite", "postgres"])
def test_a_yardstick_stays_a_yardstick(name: str) -> None:
    text = (ROOT / "benchmarks" / "raw" / f"{name}.py").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(('"""', "from ", "import "))]
    assert len(lines) <= LONGEST_YARDSTICK, f"{len(lines)} lines"
