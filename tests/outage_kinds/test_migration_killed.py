"""A migration of Postgres tables is killed before each of its statements: the next one finds what was there, and makes the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from onward.drivers.sql.migrations import load_migrations
from onward.errors import SchemaOutOfDate
from tests.drivers.tables import PostgresTables

ROOT = Path(__file__).parents[2]
FIRST = "1"
MOST = 200
MIGRATOR = """
    import os, signal, sys
    import psycopg
    from onward.clock import SystemClock
    from onward.drivers import connect

    left = int(sys.argv[2])
    execute = psycopg.Cursor.execute

    def die_before(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(*arguments, **options)

    psycopg.Cursor.execute = die_before
    store = connect(sys.argv[1], clock=SystemClock(), migrate=True)
    store.open()
    store.close()
"""
"""Arguments: the URL, and how many statements it lives for."""


def migrate_until(url: str, statements: int) -> int:
    """Give the exit code of a process that is killed behind so many statements, or has come to its end before."""
    command = [sys.executable, "-c", textwrap.dedent(MIGRATOR), url, str(statements)]
    return subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode


@pytest.mark.timeout(200)
@pytest.mark.parametrize("release", ["", FIRST], ids=["no tables", "tables of the first release"])
def test_a_migration_that_is_killed_at_any_statement_is_made_whole_by_the_next(postgres_database: str, release: str) -> None:
    """Nothing in between is ever taken for tables that can be used."""
    newest = max(load_migrations(PostgresTables.package))
    whole = PostgresTables(postgres_database, "whole")
    if release:
        whole.load(release)
    with closing(whole.store(migrate=True)) as store:
        store.open()
    for statements in range(MOST):
        tables = PostgresTables(postgres_database, f"killed_{statements}")
        if release:
            tables.load(release)
        code = migrate_until(f"{postgres_database}?schema={tables.schema}", statements)
        found = tables.rows(f"SELECT to_regclass('{tables.prefix}schema_version') IS NOT NULL")[0][0]
        version = tables.rows("SELECT max(version) FROM {prefix}schema_version")[0][0] if found else None
        assert version in (None, *range(1, newest + 1))
        if version != newest:
            with closing(tables.store()) as store, pytest.raises(SchemaOutOfDate):
                store.open()
        with closing(tables.store(migrate=True)) as store:
            store.open()
            assert store.schema_version == newest
        assert tables.catalog() == whole.catalog()
        if code == 0:
            assert statements > newest, "it was never killed"
            return
        assert code == -signal.SIGKILL
    pytest.fail(f"the migration needs more than {MOST} statements")
