"""``onward migrate``: asked, printed or done; and what the other commands say about tables of another release."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from onward.testing.factories import make_new_job
from tests.drivers.tables import PostgresTables, SQLiteTables, Tables

Run = Callable[..., subprocess.CompletedProcess[str]]


def one_line(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """The shape of every failure."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    for part in parts:
        assert part in line


@pytest.fixture(params=["sqlite", "postgres"])
def tables(request: pytest.FixtureRequest, shop: Path) -> Tables:
    if request.param == "sqlite":
        return SQLiteTables(shop / "new.db")
    return PostgresTables(request.getfixturevalue("postgres_database"))


def url_of(tables: Tables) -> str:
    return tables.url if isinstance(tables, PostgresTables) else "sqlite:///new.db"


def test_migrate_makes_the_tables_and_says_so(onward: Run, tables: Tables) -> None:
    """Deployments run it every time, before the new code starts."""
    url = url_of(tables)
    assert onward("-u", url, "migrate", "--check").returncode == 5
    for _ in range(2):
        done = onward("-u", url, "migrate")
        assert (done.returncode, done.stderr) == (0, "")
        assert "is up to date (version " in done.stdout
    assert onward("-u", url, "migrate", "--check").returncode == 0


def test_what_sql_prints_can_be_run_as_it_stands(onward: Run, tables: Tables) -> None:
    """It goes from the screen into somebody else's shell."""
    url = url_of(tables)
    printed = onward("-u", url, "migrate", "--sql")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert printed.stdout.endswith("\nCOMMIT;\n")
    assert onward("-u", url, "migrate", "--check").returncode == 5
    tables.run(printed.stdout)
    assert onward("-u", url, "migrate", "--check").returncode == 0
    again = onward("-u", url, "migrate", "--sql")
    assert (again.returncode, again.stderr) == (0, "")
    assert [line for line in again.stdout.splitlines() if not line.startswith("--")] == []


def test_sql_makes_no_file(onward: Run, shop: Path) -> None:
    """It only prints."""
    assert onward("-u", "sqlite:///new.db", "migrate", "--sql").returncode == 0
    assert list(shop.glob("*.db*")) == []


def test_sql_can_be_had_as_json(onward: Run) -> None:
    """A tool that applies it wants the text alone."""
    answer = json.loads(onward("-u", "sqlite:///new.db", "migrate", "--sql", "--json").stdout)
    assert set(answer) == {"store", "sql"}
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(answer["sql"])


def test_sql_and_check_are_two_questions(onward: Run) -> None:
    """One is answered by text, the other by the exit code."""
    done = onward("-u", "sqlite:///new.db", "migrate", "--sql", "--check")
    assert done.returncode == 2
    assert "give one of them" in done.stderr


@pytest.mark.parametrize(
    "command", [["worker", "--drain"], ["enqueue", "broken"], ["jobs", "list"], ["doctor"], ["migrate"], ["migrate", "--sql"]], ids=" ".join
)
def test_tables_that_need_newer_code_end_every_command_with_a_line(onward: Run, shop: Path, command: list[str]) -> None:
    """The old release is started once more after the new one has changed what it would misunderstand: exit code 5, and nothing is done."""
    onward("-A", "shop:app", "migrate")
    tables = SQLiteTables(shop / "shop.db")
    tables.run("INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (999, '2099-01-01', 998)")
    one_line(onward("-A", "shop:app", *command), 5, "version 999", "at least version 998: upgrade Onward")


def test_a_worker_of_this_release_works_on_newer_tables_that_allow_it(onward: Run, shop: Path) -> None:
    """One that is restarted in the middle of a roll-out must not stand still."""
    onward("-A", "shop:app", "migrate")
    tables = SQLiteTables(shop / "shop.db")
    tables.run(
        "ALTER TABLE {prefix}jobs ADD COLUMN region TEXT;"
        "INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (999, '2099-01-01', 1);"
    )
    assert onward("-A", "shop:app", "enqueue", "send-welcome", '{"user_id": "42"}').returncode == 0
    assert onward("-A", "shop:app", "worker", "--drain").returncode == 0
    assert tables.rows("SELECT status FROM {prefix}jobs") == [("completed",)]
    assert "version 999" in onward("-A", "shop:app", "migrate").stdout


def test_the_command_that_makes_the_tables_can_be_pasted_and_shows_no_password(onward: Run, postgres_database: str) -> None:
    """Whatever a shell would read in the URL is quoted; who has the password puts it in."""
    parts = urlsplit(postgres_database)
    if not parts.hostname:
        pytest.skip("the server is reached through a socket")
    given = urlunsplit(parts._replace(netloc=f"postgres:s3cret@{parts.hostname}:{parts.port or 5432}", query="schema=jobs&timeout=2s"))
    done = onward("-u", given, "jobs", "list")
    assert done.returncode == 5
    assert "s3cret" not in done.stderr
    command = shlex.split(done.stderr.rpartition(": run ")[2])
    assert command == ["onward", "-u", given.replace("s3cret", "[redacted]"), "migrate"]


def test_a_store_in_postgres_without_tables_names_the_command_that_makes_them(onward: Run, postgres_database: str, shop: Path) -> None:
    """Nothing makes tables in a database that others use without being told to."""
    for command in (["jobs", "list"], ["doctor"], ["migrate", "--check"]):
        one_line(onward("-u", postgres_database, *command), 5, f": run onward -u {postgres_database} migrate")
        one_line(onward(*command, env={"ONWARD_URL": postgres_database}), 5, ": run onward migrate")
    (shop / "later.py").write_text(f"from onward import Onward\napp = Onward({postgres_database!r})\n")
    for command in (["worker"], ["reconcile"]):
        done = onward("-A", "later:app", *command)
        one_line(done, 5, "has no tables of Onward", ": run onward -A later:app migrate")
        assert "migrate=True" not in done.stderr, "that is no option of a command"
    with psycopg.connect(postgres_database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'onward'").fetchone() == (0,)
    assert onward("-u", postgres_database, "migrate").returncode == 0
    assert onward("-u", postgres_database, "jobs", "list").returncode == 0
    tables = PostgresTables(postgres_database)
    with closing(tables.store()) as store:
        assert store.enqueue([make_new_job()])[0].is_new
