"""Makes and checks the tables. Migrations are files, run in order, each recorded in the table ``schema_version``."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from importlib.resources import files

from onward.drivers.sqlite.connection import execute
from onward.drivers.sqlite.vendor_errors import translate
from onward.errors import SchemaOutOfDate

TABLES = ("jobs", "keys", "history", "rollups", "limits")
_FILE = re.compile(r"(\d{3})_\w+\.sql")


def migrations() -> dict[int, str]:
    """Every migration by its number."""
    found = {}
    for file in files("onward.drivers.sqlite").joinpath("migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            found[int(match[1])] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def migrate(connection: sqlite3.Connection, statements: Mapping[str, str], prefix: str, now_text: str, deadline: float, path: str) -> None:
    """Bring the tables up to date. Two processes may do it at once: one waits, and finds it done.

    Raises ``SchemaOutOfDate`` for tables that are newer than this Onward, or not Onward's.
    """
    known = migrations()
    if version(connection, statements, prefix, path) == max(known):
        return
    execute(connection, "BEGIN IMMEDIATE", deadline, path)
    try:
        present = version(connection, statements, prefix, path)
        for number, text in known.items():
            if number > present:
                for statement in split(text.replace("{prefix}", prefix)):
                    connection.execute(statement)
                connection.execute(statements["record_migration"], {"version": number, "now": now_text})
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise translate(error, path) from error
        raise


def version(connection: sqlite3.Connection, statements: Mapping[str, str], prefix: str, path: str) -> int:
    """Read which version the tables have; 0 when there are none. Raises ``SchemaOutOfDate``."""
    try:
        names = {row[0] for row in connection.execute(statements["tables"]).fetchall()}
        ours = [name for name in TABLES if prefix + name in names]
        if prefix + "schema_version" not in names:
            if ours:
                raise SchemaOutOfDate(
                    f"{path} has a table {prefix}{ours[0]} that Onward did not make: give the store another prefix "
                    f"(sqlite:///…?prefix=jobs_), or rename that table"
                )
            return 0
        found = connection.execute(statements["schema_version"]).fetchone()[0] or 0
    except sqlite3.Error as error:
        raise translate(error, path) from error
    newest = max(migrations())
    if found > newest:
        raise SchemaOutOfDate(
            f"the tables in {path} have version {found} and are newer than this Onward, which knows {newest}: upgrade Onward"
        )
    if found and len(ours) < len(TABLES):
        missing = next(name for name in TABLES if name not in ours)
        raise SchemaOutOfDate(f"{path} is incomplete: it has no table {prefix}{missing}; restore a backup, or give another file or prefix")
    return int(found)


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
