"""What a run writes outside its store's tables is looked at: files that are not what was promised, and secrets that slipped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from onward import Onward, RetryPolicy, define_job
from onward.testing import drain
from tests.torture import application, store, tables, written
from tests.torture.application import CANARY, SLIPS, Login
from tests.torture.leaks import find_leaks
from tests.torture.store import path_of
from tests.torture.written import Files, disagreements, write_of

INDISCREET = define_job("indiscreet", application.indiscreet, retry=RetryPolicy(max_attempts=1))


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Onward]:
    """The application of a run that writes files and lets secrets slip, with nobody who keeps a history."""
    monkeypatch.setattr(written, "note", lambda *_: None)
    monkeypatch.setattr(application, "note", lambda *_: None)
    (tmp_path / "files").mkdir()
    files = Files(tmp_path / "files")
    write = define_job("write", files.write)
    app = Onward(f"sqlite:///{tmp_path / 'jobs.db'}", jobs=[write, INDISCREET])
    app.enqueue(write, write_of(3))
    for number in range(len(SLIPS)):
        app.enqueue(INDISCREET, Login(number))
    drain(app)
    (tmp_path / "log").write_text("nothing\n")
    yield app
    app.close()


def test_what_was_promised_is_there(app: Onward, tmp_path: Path) -> None:
    assert disagreements(tmp_path / "files", app.store.url) == ()


def test_a_file_with_other_content_is_named(app: Onward, tmp_path: Path) -> None:
    (tmp_path / "files" / "plain" / "1").write_text("torn")
    (line,) = disagreements(tmp_path / "files", app.store.url)
    assert "plain/1" in line


def test_a_temporary_file_that_a_sweep_may_not_take_is_named(app: Onward, tmp_path: Path) -> None:
    (tmp_path / "files" / "plain" / ".onward-01ARZ3NDEKTSV4RRFFQ69G5FAV-1.del").write_text("moved aside for nothing")
    assert any("a temporary file is left" in line for line in disagreements(tmp_path / "files", app.store.url))


def test_what_handlers_let_slip_is_kept_out_of_the_store(app: Onward, tmp_path: Path) -> None:
    """The payload is the application's own, and the only place."""
    with closing(sqlite3.connect(path_of(app.store.url))) as connection:
        errors = [row[0] for row in connection.execute("SELECT error FROM onward_jobs WHERE type = 'indiscreet'")]
        assert len(errors) == len(SLIPS)
        assert all("[redacted]" in error for error in errors)
        assert connection.execute(f"SELECT count(*) FROM onward_jobs WHERE payload LIKE '%{CANARY}%'").fetchone() == (len(SLIPS),)
    assert find_leaks(app.store.url, tmp_path / "log", CANARY) == ()


@pytest.mark.parametrize(("table", "column"), [("onward_jobs", "error"), ("onward_jobs", "metadata"), ("onward_history", "error")])
def test_a_secret_in_a_column_is_named(app: Onward, tmp_path: Path, table: str, column: str) -> None:
    with closing(sqlite3.connect(path_of(app.store.url))) as connection, connection:
        count = connection.execute(f'UPDATE {table} SET {column} = \'{{"said": "{CANARY}"}}\'').rowcount
    assert find_leaks(app.store.url, tmp_path / "log", CANARY) == (f"{table}.{column} has the secret in {count} rows",)


def test_a_secret_in_the_log_is_named(app: Onward, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"error: {CANARY} was refused\n")
    (line,) = find_leaks(app.store.url, tmp_path / "log", CANARY)
    assert line.startswith("the log has the secret")


@pytest.fixture
def on_postgres(postgres_database: str) -> Iterator[Onward]:
    app = Onward(postgres_database, jobs=[INDISCREET], migrate=True)
    app.store.open()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(tables.POSTGRES.encode())
    app.enqueue(INDISCREET, Login(1))
    yield app
    app.close()


def test_a_secret_is_found_on_postgres(on_postgres: Onward, postgres_database: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("nothing\n")
    assert find_leaks(postgres_database, tmp_path / "log", CANARY) == ()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("UPDATE onward.jobs SET error = %s", [CANARY])
    assert find_leaks(postgres_database, tmp_path / "log", CANARY) == ("onward.jobs.error has the secret in 1 rows",)


@pytest.mark.parametrize("has_amcheck", [True, False])
def test_an_index_that_lacks_a_row_is_found(
    on_postgres: Onward, postgres_database: str, has_amcheck: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server's own check, and by the counts that stand in for it."""
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        if has_amcheck and not store.has_amcheck(connection):
            pytest.skip("this server has no amcheck")
        if not has_amcheck:
            monkeypatch.setattr(store, "has_amcheck", lambda connection: False)
        assert store.read_rows(postgres_database).damage == ()
        flag = "UPDATE pg_index SET indisready = {} WHERE indrelid = 'onward.jobs'::regclass AND indisprimary"
        connection.execute(flag.format("false").encode())
        another = "SELECT jsonb_populate_record(jobs, jsonb_build_object('id', reverse(id))) AS job FROM onward.jobs"
        connection.execute(f"INSERT INTO onward.jobs SELECT (job).* FROM ({another}) AS more".encode())
        connection.execute(flag.format("true").encode())
    assert any("jobs" in line for line in store.read_rows(postgres_database).damage)
