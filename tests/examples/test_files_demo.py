"""The demo of examples/files ends well, and does not when a count is wrong."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(module: str, *words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("EXAMPLE_", "DEMO_", "ONWARD_"))}
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=cwd,
        env={**clean, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_demo_shows_what_it_promises_and_ends_well(tmp_path: Path) -> None:
    """Every printed count equals the store and the disk, and reconcile is clean; also in a store of one's own."""
    store = tmp_path / "elsewhere.db"
    done = run("examples.files.demo", cwd=tmp_path, DEMO_URL=f"sqlite:///{store}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything is as it should be" in done.stdout
    for said in (
        "Killed worker process",
        "Refused at enqueue",
        "Dead letters",
        "models: 176 checked, 0 wrong",
        "files: 7 checked, 0 wrong",
    ):
        assert said in done.stdout
    with closing(sqlite3.connect(store)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM jobs WHERE status NOT IN ('completed', 'failed')").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM jobs WHERE type = 'write_model'").fetchone() == (99,)
    connection.close()
    again = run("examples.files.demo", cwd=tmp_path, DEMO_URL=f"sqlite:///{store}")
    assert again.returncode == 2
    assert "name an empty store" in again.stdout


@pytest.mark.parametrize(("words", "environment"), [(["--falsify"], {}), ([], {"DEMO_FALSIFY": "1"})])
def test_a_wrong_count_is_noticed(tmp_path: Path, words: list[str], environment: dict[str, str]) -> None:
    """A comparison that cannot fail would prove nothing."""
    done = run("examples.files.demo", *words, cwd=tmp_path, **environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT as it should be" in done.stdout
    assert done.stdout.count(" NO\n") == 1


def test_the_demo_leaves_a_directory_alone_that_is_not_its_own(tmp_path: Path) -> None:
    """It begins by clearing its home."""
    (tmp_path / ".demo").mkdir()
    (tmp_path / ".demo/precious").write_text("")
    done = run("examples.files.demo", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / ".demo/precious").exists()


def test_the_questions_print_their_queries(tmp_path: Path) -> None:
    """Each runs as printed in the database's own shell."""
    home = {"EXAMPLE_FILES_HOME": str(tmp_path / "home")}
    answers = run("examples.files.questions", cwd=tmp_path, **home)
    assert answers.returncode == 0, answers.stderr
    assert answers.stdout.count("none") == 6
    with closing(sqlite3.connect(tmp_path / "home/app.db")) as connection, connection:
        for name in ("outstanding", "failed", "stuck", "durations", "duplicates", "last-hour"):
            printed = run("examples.files.questions", name, "--sql", cwd=tmp_path, **home)
            assert printed.stdout.startswith("-- ")
            assert "FROM jobs" in printed.stdout
            assert connection.execute(printed.stdout).fetchall() == []
    connection.close()


def test_a_reader_of_the_questions_that_leaves_gets_no_traceback(tmp_path: Path) -> None:
    """``python -m examples.files.questions | head`` is how a long answer is looked at."""
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.files.questions", "--sql"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 0
