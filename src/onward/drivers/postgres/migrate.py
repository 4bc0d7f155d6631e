"""Makes and checks the tables. Migrations are files, run in order, each recorded in the table ``schema_version``.

A migration never makes anybody wait for long. It gives up on a lock that it does not get within ``LOCK_TIMEOUT``, since all that come
after it in the line for that lock wait as well, and tries again a little later. A second migrator tries an advisory lock in transactions
of a moment each; one that waited inside a transaction would hold back the cleaning up of dead rows. Nothing here belongs to a session,
so it works through a pooler that lends a connection for one transaction at a time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NoReturn

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from onward.drivers.postgres.statement_text import qualify
from onward.drivers.postgres.vendor_errors import text_of
from onward.drivers.sql.migrations import TABLES, Step, fill_in, load_migrations, next_step, tables_at, too_new, whole_script
from onward.drivers.sql.statements import load_statements
from onward.errors import SchemaOutOfDate, StoreBusy

LOCK_TIMEOUT = 0.3
"""Seconds that a migration waits for a lock, and lets others wait behind it."""
PAUSE = (0.05, 0.5)
"""Seconds between two tries."""
PATIENCE = 120.0
"""Seconds after which a migrator that met a lock each time gives up."""
CLASHES = 3
"""How often a name that is taken already is tried: somebody may be running the script by hand at the same moment."""
_MET_A_LOCK = (errors.LockNotAvailable, errors.DeadlockDetected)
_MET_THE_SAME_NAME = (
    errors.UniqueViolation,
    errors.DuplicateTable,
    errors.DuplicateSchema,
    errors.DuplicateColumn,
    errors.DuplicateObject,
)
_OWN_SCHEMA = "give the store a schema of its own (postgresql://…?schema=onward_jobs)"


def migrations() -> dict[int, str]:
    """Every migration by its number."""
    return load_migrations("onward.drivers.postgres")


def newest() -> int:
    """The version that this code makes."""
    return max(migrations())


def migrate(connection: psycopg.Connection[Any], schema: str, known: Mapping[int, str] | None = None) -> None:
    """Bring the tables up to date, on a connection that commits by itself. Any number may do it at once: one does, the others wait.

    ``known`` are the migrations to apply, in place of those in the package: a test has some that were never released.
    Raises ``SchemaOutOfDate`` for tables that need a newer Onward, that are not Onward's, or that this role may not make, and
    ``StoreBusy`` when others held the tables, or migrated, for longer than ``PATIENCE``.
    """
    deadline = time.monotonic() + PATIENCE
    known = migrations() if known is None else known
    held, clashes = "", 0
    while version(connection, schema, known) < max(known):
        try:
            if _apply_next(connection, schema, known):
                continue
            held = "another migration"
        except _MET_A_LOCK as error:
            held = f"a transaction that holds a table ({text_of(error)})"
        except _MET_THE_SAME_NAME as error:
            clashes += 1
            if clashes == CLASHES:
                raise SchemaOutOfDate(
                    f"{_place(connection, schema)} holds something that Onward did not make ({text_of(error)}): {_OWN_SCHEMA}, or rename it"
                ) from error
        except errors.InsufficientPrivilege as error:
            raise SchemaOutOfDate(
                f"the role {connection.info.user} may not make the tables of {_place(connection, schema)} ({text_of(error)}): "
                "let a role that may run what 'onward migrate --sql' prints"
            ) from error
        if time.monotonic() > deadline:
            raise StoreBusy(f"{_place(connection, schema)} was not migrated within {PATIENCE:g} s because of {held}: try again")
        time.sleep(random.uniform(*PAUSE))


def _apply_next(connection: psycopg.Connection[Any], schema: str, known: Mapping[int, str]) -> bool:
    """Apply the one migration that comes next. False when another migrator is at work."""
    statements = _statements(schema)
    with connection.transaction():
        _run(connection, statements["begin_migration"])
        if not _ask(connection, statements["lock_migrations"])[0][0]:
            return False
        present = version(connection, schema, known)
        for number, text in known.items():
            if number > present:
                _run(connection, fill_in(text, _names(schema)))
                break
    return True


def version(connection: psycopg.Connection[Any], schema: str, known: Mapping[int, str] | None = None) -> int:
    """Read which version the tables have; 0 when there are none. Newer ones than this code knows may be of use to it.

    Raises ``SchemaOutOfDate`` when they are not, when some are missing, and when they are not Onward's.
    """
    place, statements = _place(connection, schema), _statements(schema)
    names = {row[0] for row in _ask(connection, statements["tables"])}
    if "schema_version" not in names:
        ours = next((name for name in TABLES if name in names), None)
        if ours:
            _refuse_foreign(place, ours)
        return 0
    try:
        found = _ask(connection, statements["schema_version"])[0][0] or 0
        works_with = _ask(connection, statements["works_with"])[0][0] or 0
        # Once more: another migrator may have committed since the first look, and made what the version says there is.
        names = {row[0] for row in _ask(connection, statements["tables"])}
    except (errors.UndefinedColumn, errors.UndefinedFunction):
        _refuse_foreign(place, "schema_version")
    except errors.InsufficientPrivilege as error:
        raise SchemaOutOfDate(
            f"the role {connection.info.user} may not read the tables of {place} ({text_of(error)}): "
            f"grant it USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its tables"
        ) from error
    if next_step(found, works_with, known or migrations(), may_migrate=True) is Step.REFUSE_AS_TOO_NEW:
        raise SchemaOutOfDate(too_new(place, found, works_with))
    if not found:
        raise SchemaOutOfDate(f"{place} is incomplete: its table schema_version is empty; restore a backup")
    missing = next((name for name in tables_at(found, known or migrations()) if name not in names), None)
    if missing:
        raise SchemaOutOfDate(f"{place} is incomplete: it has no table {missing}; restore a backup, or give another schema")
    return int(found)


def migration_sql(found: int, schema: str) -> str:
    """Write the script that brings tables of version ``found`` up to date, to be run by hand. Run again, it fails and changes nothing."""
    statements = _statements(schema)
    return whole_script(
        found,
        migrations(),
        _names(schema),
        place=f"schema {schema}",
        how="psql --set ON_ERROR_STOP=1 --file SCRIPT\n-- Where a table is busy it fails soon, and blocks nobody: then run it again.",
        begin=statements["begin_script"] + ";",
    )


def _names(schema: str) -> Mapping[str, str]:
    return {"prefix": f'"{schema}".', "schema": schema, "now": "statement_timestamp()"}


def _statements(schema: str) -> Mapping[str, str]:
    text = files("onward.drivers.postgres").joinpath("tables.sql").read_text(encoding="utf-8")
    loaded = load_statements(text, schema=schema, lock_timeout=f"{LOCK_TIMEOUT * 1000:.0f}")
    return {name: qualify(statement) for name, statement in loaded.items()}


def _refuse_foreign(place: str, table: str) -> NoReturn:
    raise SchemaOutOfDate(f"{place} has a table {table} that Onward did not make: {_OWN_SCHEMA}, or rename that table")


def _place(connection: psycopg.Connection[Any], schema: str) -> str:
    return f"schema {schema} in database {connection.info.dbname}"


def _ask(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    return psycopg.Cursor(connection, row_factory=tuple_row).execute(sql, prepare=False).fetchall()


def _run(connection: psycopg.Connection[Any], script: str) -> None:
    psycopg.Cursor(connection).execute(script, prepare=False)
