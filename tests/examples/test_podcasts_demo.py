"""The demo of examples/podcasts ends well, and does not when a count is wrong; where it cannot run it says so in a line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from examples.podcasts.demo import SCHEMAS
from onward import Onward, job
from tests.examples.test_podcasts_start import unusable

ROOT = Path(__file__).parents[2]


@job("wait")
def wait(payload: None) -> None:
    """A job of somebody's."""


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


def test_in_a_postgres_database_the_demo_runs_again_and_leaves_what_is_not_its_own_alone(tmp_path: Path, postgres_database: str) -> None:
    """It drops what an earlier one has made, and that alone; the second one too notices a wrong count."""
    with Onward(postgres_database, jobs=[wait], migrate=True) as app, psycopg.connect(postgres_database, autocommit=True) as connection:
        app.enqueue(wait)
        connection.execute("CREATE TABLE users (precious text)")
        first = run(tmp_path, DEMO_URL=postgres_database)
        assert first.returncode == 0, first.stdout + first.stderr
        again = run(tmp_path, "--falsify", DEMO_URL=postgres_database)
        assert again.returncode == 1, again.stdout + again.stderr
        assert again.stdout.count(" NO, expected") == 1
        assert len(app.find()) == 1
        assert [column[0] for column in connection.execute("SELECT * FROM users").description or ()] == ["precious"]
        assert connection.execute(f"SELECT count(*) FROM {SCHEMAS.own}.users").fetchone() == (2,)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://127.0.0.1:1/nowhere", "the database in DEMO_URL cannot be used"),
        ("postgresql://127.0.0.1:1/nowhere?schema=mine", "leave schema= out of DEMO_URL"),
        ("postgresql://127.0.0.1:1/nowhere?shema=mine", "did you mean 'schema'?"),
        ("memory://", "sqlite:///file.db or postgresql://user@host/database, not memory://"),
        ("sqlite:////nowhere/at/all.db", "the directory /nowhere/at does not exist"),
        ("MISSING", 'database "nowhere_at_all" does not exist'),
        ("REFUSED", 'role "nobody_at_all" does not exist'),
    ],
)
def test_a_database_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, url: str, said: str, request: pytest.FixtureRequest) -> None:
    """A mistyped address needs no traceback, and leaves no directory."""
    if url in ("MISSING", "REFUSED"):
        url = unusable(request.getfixturevalue("postgres"), url)
    refused = run(tmp_path, DEMO_URL=url)
    assert (refused.returncode, refused.stderr) == (2, "")
    assert said in refused.stdout
    assert refused.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_jobs_in_it_is_left_alone(tmp_path: Path) -> None:
    """They are somebody's, or an earlier demo's: no count could be right."""
    url = f"sqlite:///{tmp_path / 'somebodys.db'}"
    with Onward(url, jobs=[wait]) as app:
        app.enqueue(wait)
        refused = run(tmp_path, DEMO_URL=url)
        assert (refused.returncode, refused.stdout.count("\n")) == (2, 1)
        assert "holds 1 jobs already: name an empty database in DEMO_URL" in refused.stdout
        assert len(app.find()) == 1


def test_the_variable_of_the_application_is_not_the_demos(tmp_path: Path) -> None:
    """The demo would drop what it finds there, or be taken to have run where it has not."""
    url = f"sqlite:///{tmp_path / 'own.db'}"
    refused = run(tmp_path, EXAMPLE_PODCASTS_URL=url)
    assert (refused.returncode, refused.stdout.count("\n")) == (2, 1)
    assert "EXAMPLE_PODCASTS_URL is the application's own database: name one for the demo in DEMO_URL" in refused.stdout
    assert list(tmp_path.iterdir()) == []
