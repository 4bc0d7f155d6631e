"""Makes and checks the tables. Migrations are files, run in order, each recorded in the table ``schema_version``."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping

from onward.drivers.sql.migrations import TABLES, Step, fill_in, load_migrations, next_step, tables_at, too_new, whole_script
from onward.drivers.sqlite.connection import execute
from onward.drivers.sqlite.vendor_errors import translate
from onward.errors import SchemaOutOfDate, StoreBusy


def migrations() -> dict[int, str]:
    """Every migration by its number."""
    return load_migrations("onward.drivers.sqlite")


def migrate(connection: sqlite3.Connection, statements: Mapping[str, str], prefix: str, now_text: str, deadline: float, path: str) -> int:
    """Bring the tables up to date, and give the version that they have then. Two processes may do it at once: one waits, and finds it done.

    Raises ``SchemaOutOfDate`` for tables that need a newer Onward, or are not Onward's. After an error the connection has to be closed,
    which rolls back what had been done.
    """
    known = migrations()
    found = _version_in_time(connection, statements, prefix, path, deadline)
    if found >= max(known):
        return found
    execute(connection, "BEGIN IMMEDIATE", deadline, path)
    try:
        present = version(connection, statements, prefix, path)
        for number, text in known.items():
            if number > present:
                for statement in split(fill_in(text, _names(prefix, f"'{now_text}'"))):
                    connection.execute(statement)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    return max(present, *known)


def _version_in_time(connection: sqlite3.Connection, statements: Mapping[str, str], prefix: str, path: str, deadline: float) -> int:
    """Another process that makes the same file switches it to its log just now: for that moment not even a reader gets in."""
    while True:
        try:
            return version(connection, statements, prefix, path)
        except StoreBusy:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.001)


def version(connection: sqlite3.Connection, statements: Mapping[str, str], prefix: str, path: str) -> int:
    """Read which version the tables have; 0 when there are none. Newer ones than this code knows may be of use to it.

    Raises ``SchemaOutOfDate`` when they are not, when some are missing, and when they are not Onward's.
    """
    try:
        names = {row[0] for row in connection.execute(statements["tables"]).fetchall()}
        if prefix + "schema_version" not in names:
            ours = next((name for name in TABLES if prefix + name in names), None)
            if ours:
                raise SchemaOutOfDate(
                    f"{path} has a table {prefix}{ours} that Onward did not make: give the store another prefix "
                    f"(sqlite:///…?prefix=jobs_), or rename that table"
                )
            return 0
        found = connection.execute(statements["schema_version"]).fetchone()[0] or 0
        newest = max(migrations())
        # The first tables do not say what they work with; those that this code makes or made work with it.
        works_with = connection.execute(statements["works_with"]).fetchone()[0] if found > newest else found
        # Once more: another process may have migrated since the first look, and made what the version says there is.
        names = {row[0] for row in connection.execute(statements["tables"]).fetchall()}
    except sqlite3.Error as error:
        raise translate(error, path) from error
    if next_step(found, works_with, migrations(), may_migrate=True) is Step.REFUSE_AS_TOO_NEW:
        raise SchemaOutOfDate(too_new(path, found, works_with))
    if not found:
        raise SchemaOutOfDate(f"{path} is incomplete: its table {prefix}schema_version is empty; restore a backup")
    missing = next((name for name in tables_at(found, migrations()) if prefix + name not in names), None)
    if missing:
        raise SchemaOutOfDate(f"{path} is incomplete: it has no table {prefix}{missing}; restore a backup, or give another file or prefix")
    return int(found)


def migration_sql(found: int, prefix: str, path: str) -> str:
    """Write the script that brings tables of version ``found`` up to date, to be run by hand. Run again, it fails and changes nothing."""
    return whole_script(
        found,
        migrations(),
        _names(prefix, "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')"),
        place=path,
        how="sqlite3 -bail FILE < SCRIPT",
        begin="BEGIN IMMEDIATE;",
    )


def _names(prefix: str, now: str) -> Mapping[str, str]:
    return {"prefix": prefix, "now": now}


def split(text: str) -> list[str]:
    """Split a script into statements; ``executescript`` would commit first."""
    statements, current = [], ""
    for line in text.splitlines():
        if line.lstrip().startswith("--"):
            continue
        current += line + "\n"
        if line.rstrip().endswith(";") and sqlite3.complete_statement(current):
            statements.append(current.strip())
            current = ""
    return statements
