"""The demo of examples/podcasts ends well, and does not when a count is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("EXAMPLE_", "DEMO_", "ONWARD_"))}
    return subprocess.run(
        [sys.executable, "-m", "examples.podcasts.demo", *words],
        cwd=home,
        env={**clean, "PYTHONPATH": str(ROOT), "TMPDIR": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_demo_shows_what_it_promises_and_ends_well(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    """Every printed count is as it should be, and nothing is left behind."""
    environment = {} if database == "sqlite" else {"DEMO_URL": request.getfixturevalue("postgres_database")}
    done = run(tmp_path, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything is as it should be" in done.stdout
    assert "Killed worker process" in done.stdout
    assert " NO, expected" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_count_is_noticed(tmp_path: Path) -> None:
    """A comparison that cannot fail would prove nothing; what could explain it is kept."""
    done = run(tmp_path, "--falsify")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count(" NO, expected") == 1
    assert "NOT as it should be" in done.stdout
    assert [path.name for path in next(tmp_path.iterdir()).glob("*.log")]
