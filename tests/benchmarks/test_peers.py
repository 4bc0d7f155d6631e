"""Other libraries beside Onward. What each of them does is not tried here, since none is installed; how they are measured is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.peers.__main__ import main
from tests.loopback import HOST
from tests.postgres_server import ASKED

ROOT = Path(__file__).parents[2]
STAND_IN = "tests.benchmarks.stand_in"


@pytest.mark.parametrize("name", ["drain, 1 process", "enqueue one by one"])
def test_a_peer_is_measured_beside_onward_and_one_that_is_not_installed_is_told(tmp_path: Path, name: str) -> None:
    """Somebody without one of the libraries still learns about the others, and does not take silence for a figure."""
    figures = tmp_path / "figures.json"
    options = ["--peer", "benchmarks.peers.nobody", "--peer", STAND_IN, "--only", name, "--runs", "1", "--scale", "0.01"]
    command = [sys.executable, "-m", "benchmarks.peers", *options, "--folder", str(tmp_path), "--json", str(figures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stderr
    assert done.stderr == "benchmarks.peers.nobody is not measured: No module named 'benchmarks.peers.nobody'\n"
    assert "none; deletes the row after the run" in done.stdout
    (result,) = json.loads(figures.read_text())["results"]
    assert result["name"] == f"{STAND_IN}: {name}"
    assert result["ratio"] == pytest.approx(result["onward"]["rate"] / result["against"]["rate"])
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_without_postgres_its_peers_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has only SQLite measures only SQLite, and sees that this was not all."""
    monkeypatch.setenv(ASKED, f"postgresql://nobody@{HOST}:1/nowhere")
    monkeypatch.setitem(sys.modules, "benchmarks.peers.far", SimpleNamespace(STORE="postgres"))
    monkeypatch.setattr(sys, "argv", ["benchmarks.peers", "--peer", "far"])
    assert main() == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("far is not measured: ")
