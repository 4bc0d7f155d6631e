"""The demo of examples/files ends well, and does not when a count is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from examples.files.database import connect
from examples.files.demo import SCHEMAS
from onward import Onward, job

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


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of one's own that is not there yet, on each backend."""
    return request.getfixturevalue("postgres_database") if request.param == "postgres" else f"sqlite:///{tmp_path / 'elsewhere.db'}"


@job("wait")
def wait(payload: None) -> None:
    """A job of somebody's."""


def test_the_demo_shows_what_it_promises_and_ends_well(tmp_path: Path, store_url: str) -> None:
    """Every printed count equals the store and the disk, and reconcile is clean."""
    done = run("examples.files.demo", cwd=tmp_path, DEMO_URL=store_url)
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
    with closing(connect(SCHEMAS.lead_into(store_url) if store_url.startswith("postgres") else store_url)) as connection:
        assert connection.execute("SELECT count(*) FROM jobs WHERE status NOT IN ('completed', 'failed')").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM jobs WHERE type = 'write_model'").fetchone() == (99,)


def test_a_file_with_jobs_in_it_is_left_alone(tmp_path: Path) -> None:
    """They are somebody's, or an earlier demo's: no count could be right."""
    url = f"sqlite:///{tmp_path / 'somebodys.db'}"
    with Onward(url, jobs=[wait]) as app:
        app.enqueue(wait)
        again = run("examples.files.demo", cwd=tmp_path, DEMO_URL=url)
        assert again.returncode == 2
        assert "holds 1 jobs already: name an empty store" in again.stdout
        assert len(app.find()) == 1


def test_in_a_postgres_database_the_demo_runs_again_and_leaves_what_is_not_its_own_alone(tmp_path: Path, postgres_database: str) -> None:
    """It drops what an earlier one has made, and that alone; the second one too notices a wrong count."""
    with Onward(postgres_database, jobs=[wait], migrate=True) as app, closing(connect(postgres_database)) as connection:
        app.enqueue(wait)
        connection.execute("CREATE TABLE jobs (precious text)")
        with SCHEMAS.fresh(postgres_database) as url, Onward(url, jobs=[wait], migrate=True) as earlier:
            earlier.enqueue(wait)
        again = run("examples.files.demo", "--falsify", cwd=tmp_path, DEMO_URL=postgres_database)
        assert again.returncode == 1, again.stdout + again.stderr
        assert "NOT as it should be" in again.stdout
        assert again.stdout.count(" NO\n") == 1
        assert len(app.find()) == 1
        assert [column[0] for column in connection.execute("SELECT * FROM jobs").description] == ["precious"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://127.0.0.1:1/nowhere", "the database in DEMO_URL cannot be used"),
        ("postgresql://127.0.0.1:1/nowhere?schema=mine", "leave schema= out of DEMO_URL"),
        ("memory://", "give sqlite:///file.db or postgresql://user@host/database"),
        ("sqlite:////nowhere/at/all.db", "the directory /nowhere/at does not exist"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, url: str, said: str) -> None:
    """A mistyped address needs no traceback."""
    refused = run("examples.files.demo", cwd=tmp_path, DEMO_URL=url)
    assert (refused.returncode, refused.stderr) == (2, "")
    assert said in refused.stdout
    assert refused.stdout.count("\n") == 1


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


def test_the_questions_print_their_queries(tmp_path: Path, store_url: str) -> None:
    """Each runs as printed in the database's own shell."""
    home = {"EXAMPLE_FILES_HOME": str(tmp_path / "home"), "EXAMPLE_FILES_URL": store_url}
    answers = run("examples.files.questions", cwd=tmp_path, **home)
    assert answers.returncode == 0, answers.stderr
    assert answers.stdout.count("none") == 6
    with closing(connect(store_url)) as connection:
        for name in ("outstanding", "failed", "stuck", "durations", "duplicates", "last-hour"):
            printed = run("examples.files.questions", name, "--sql", cwd=tmp_path, **home)
            assert printed.stdout.startswith("-- ")
            assert "FROM jobs" in printed.stdout
            assert connection.execute(printed.stdout).fetchall() == []


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
