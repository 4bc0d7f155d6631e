"""Whether the tables are as the migrations make them; they are made once more beside them for a moment, and compared part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

import psycopg

from onward.drivers.postgres.connections import StoreConnection
from onward.drivers.postgres.database import Database
from onward.drivers.postgres.migrate import migration_sql, migrations, newest
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.vendor_errors import sqlstate_of, text_of
from onward.drivers.sql.migrations import TABLES, fill_in
from onward.drivers.sql.statements import Statement
from onward.errors import OnwardError
from onward.inspection import Finding

COMPARED = frozenset({*TABLES, "schema_version"})
NO_MODEL = frozenset({"42501", "25006", "42P07"})
"""Temporary tables are not granted, or cannot be made on a standby or in read-only transactions, or have these names already."""


class Part(NamedTuple):
    """A column, constraint, index or trigger, as the catalogs describe it."""

    is_model: bool
    table: str
    kind: str
    name: str
    made: str
    is_valid: bool
    is_demanding: bool
    """A column that every insert must name; a constraint that statements rely upon; an index that may refuse rows."""


def drift(database: Database, text: StatementText, schema: str, version: int) -> Iterator[Finding]:
    """``version`` is that of the tables; of those that a newer Onward has made, what it added is not known here."""
    yield Finding("schema", "ok", f"version {version}")
    try:
        parts = _parts(database, text, schema, version)
    except OnwardError as error:
        cause = error.__cause__
        if cause is None or sqlstate_of(cause) not in NO_MODEL:
            raise
        yield Finding(
            "schema drift", "warning", f"only indexes were checked, since no temporary tables can be made here ({text_of(cause)})"
        )
        ours = [part for part in (Part(*row) for row in database.ask(text.raw["examine_made"])[1]) if not part.is_model]
        yield from _indexes_alone(ours, schema)
        return
    made, model = _by_name(parts, is_model=False), _by_name(parts, is_model=True)
    found = [finding for key in sorted(made.keys() | model.keys()) for finding in _compare(made.get(key), model.get(key), schema)]
    if version > newest():
        found = [one for one in found if not one.name.startswith("added")]
    yield from found or [Finding("schema drift", "ok", "none: the tables are as the migrations make them")]


def _parts(database: Database, text: StatementText, schema: str, version: int) -> list[Part]:
    """Ours, and those of a model that is gone when this returns."""
    words = {"prefix": "pg_temp.", "schema": schema, "now": "statement_timestamp()"}
    script = "\n".join(fill_in(migration, words) for number, migration in migrations().items() if number <= version)

    def work(connection: StoreConnection, now: datetime) -> list[Part]:
        connection.run(text, Statement("examine_plainly"))
        connection.run(text, Statement("savepoint"))
        psycopg.Cursor(connection).execute(script.encode(), prepare=False)
        rows = connection.run(text, Statement("examine_made"))
        connection.run(text, Statement("undo_savepoint"))
        return [Part(*row) for row in rows]

    return database.transact(work, is_spare=True)


def _by_name(parts: list[Part], *, is_model: bool) -> Mapping[tuple[str, str, str], Part]:
    return {(part.table, part.kind, part.name): part for part in parts if part.is_model is is_model and part.table in COMPARED}


def _compare(ours: Part | None, model: Part | None, schema: str) -> Iterator[Finding]:
    if ours is None and model is not None:
        yield _missing(model, schema)
    elif ours is not None and model is None:
        yield _added(ours, schema)
    elif ours is not None and model is not None and ours.made != model.made:
        yield _changed(ours, model, schema)
    elif ours is not None and not ours.is_valid:
        yield _invalid(ours, schema)


def _missing(part: Part, schema: str) -> Finding:
    table = f'"{schema}".{part.table}'
    if part.kind == "index":
        text = f"index {part.name} is missing, so every look reads all of {table}: {_statement(part.name, schema)}"
        return Finding("schema drift", "error", text)
    what = f"COLUMN {part.name} {part.made}" if part.kind == "column" else f"CONSTRAINT {part.name} {part.made}"
    return Finding("schema drift", _level(part), f"{part.kind} {part.name} of {table} is missing: ALTER TABLE {table} ADD {what}")


def _changed(ours: Part, model: Part, schema: str) -> Finding:
    if ours.kind == "index":
        old = f'"{schema}".{ours.name}'
        text = f"index {ours.name} was changed, so statements cannot use it: DROP INDEX CONCURRENTLY {old}; {_statement(ours.name, schema)}"
        return Finding("schema drift", "error", text)
    text = f'{ours.kind} {ours.name} of "{schema}".{ours.table} is "{ours.made}" and should be "{model.made}": change it back'
    return Finding("schema drift", _level(model), text)


def _level(model: Part) -> Literal["warning", "error"]:
    """A rule that refuses bad rows may be gone without harm to good ones."""
    return "warning" if model.kind == "constraint" and not model.is_demanding else "error"


def _invalid(part: Part, schema: str) -> Finding:
    text = f'index {part.name} is invalid, so no statement uses it: REINDEX INDEX CONCURRENTLY "{schema}".{part.name}'
    return Finding("schema drift", "error", text)


def _added(part: Part, schema: str) -> Finding:
    table = f'"{schema}".{part.table}'
    if part.kind == "index" and not part.is_valid:
        text = f'{part.name} on {table} is what a failed CREATE INDEX or REINDEX left: DROP INDEX CONCURRENTLY "{schema}".{part.name}'
        return Finding("added index", "warning", text)
    if part.kind == "column" and part.is_demanding:
        text = f"{part.name} of {table} is not Onward's, and must be given, so every insert fails: let it have a default, or drop it"
        return Finding("added column", "error", text)
    harm = {
        "column": "an upgrade of Onward may need the name",
        "constraint": "it may refuse what Onward writes",
        "index": "every change of a row has to write it as well",
        "trigger": "it runs at every change of a row, and may change or refuse it",
    }[part.kind]
    return Finding(f"added {part.kind}", "warning", f"{part.name} on {table} is not Onward's: {harm}")


def _indexes_alone(parts: list[Part], schema: str) -> Iterator[Finding]:
    """What can be said without a model."""
    indexes = {part.name: part for part in parts if part.kind == "index"}
    for part in indexes.values():
        if not part.is_valid:
            yield _invalid(part, schema)
    if "jobs_claim" not in indexes:
        yield _missing(Part(True, "jobs", "index", "jobs_claim", "", True, False), schema)


def _statement(index: str, schema: str) -> str:
    """The statement that makes an index, as the last migration that makes it has it, so that workers can go on meanwhile."""
    made = re.findall(rf"\bCREATE (?:UNIQUE )?INDEX {index} ON [^;]*", migration_sql(0, schema))
    return " ".join(made[-1].split()).replace(" INDEX ", " INDEX CONCURRENTLY ", 1) if made else "make it as the migration does"
