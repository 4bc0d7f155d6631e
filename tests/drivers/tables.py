"""The tables of a store seen from behind: loaded from a dump, read row by row, changed by hand, compared by what the catalogs say."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect

SCHEMAS = Path(__file__).parent / "schemas"
NAMES = ("jobs", "keys", "history", "rollups", "limits")
Rows = list[tuple[Any, ...]]


class Tables(Protocol):
    package: str
    prefix: str
    words: Mapping[str, str]
    """What a migration's words in braces stand for here."""

    def make_room(self) -> None:
        """Make what a table needs to be in."""

    def load(self, dump: str) -> None:
        """Make the tables, with their rows, as ``tests/drivers/schemas/{backend}_{dump}.sql`` has them."""

    def store(self, *, migrate: bool = False) -> Store:
        """A store over these tables, as another process would have it."""

    def run(self, script: str) -> None:
        """Run statements as a person with a shell would; ``{prefix}`` stands before a table's name. Stops at the first error."""

    def rows(self, query: str) -> Rows: ...

    def catalog(self) -> Any:
        """Everything that says how the tables are made."""


def everything(tables: Tables) -> dict[str, Rows]:
    """Every row of every table but the record of versions."""
    return {name: sorted(tables.rows(f"SELECT * FROM {{prefix}}{name}"), key=repr) for name in NAMES}


class SQLiteTables:
    package = "onward.drivers.sqlite"
    prefix = "onward_"
    words: Mapping[str, str] = {"prefix": prefix, "now": "'2026-01-01T00:00:00.000000Z'"}

    def __init__(self, path: Path) -> None:
        self.path = path

    def make_room(self) -> None:
        pass

    def load(self, dump: str) -> None:
        self.run((SCHEMAS / f"sqlite_{dump}.sql").read_text(encoding="utf-8"))

    def store(self, *, migrate: bool = False) -> Store:
        return connect(f"sqlite:///{self.path}", clock=FakeClock(), migrate=migrate)

    def run(self, script: str) -> None:
        with self._connected() as connection:
            connection.executescript(script.replace("{prefix}", self.prefix))

    def rows(self, query: str) -> Rows:
        with self._connected() as connection:
            return connection.execute(query.replace("{prefix}", self.prefix)).fetchall()

    def catalog(self) -> Any:
        made = self.rows("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
        return [(*row[:3], _without_comments(row[3])) for row in made]

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path)
        try:
            yield connection
        finally:
            connection.close()


def _without_comments(sql: str) -> str:
    """SQLite keeps a definition as it was written; a dump has it without the comments."""
    lines = [line.strip() for line in sql.replace('"', "").splitlines()]
    return " ".join(line for line in lines if not line.startswith("--"))


_COLUMNS = """
SELECT class.relname, attribute.attnum, attribute.attname, format_type(attribute.atttypid, attribute.atttypmod), attribute.attnotnull,
    pg_get_expr(standard.adbin, standard.adrelid), collation_.collname, attribute.attstorage, attribute.attcompression
FROM pg_attribute AS attribute
JOIN pg_class AS class ON class.oid = attribute.attrelid
LEFT JOIN pg_attrdef AS standard ON standard.adrelid = class.oid AND standard.adnum = attribute.attnum
LEFT JOIN pg_collation AS collation_ ON collation_.oid = attribute.attcollation
WHERE class.relnamespace = '"{schema}"'::regnamespace AND class.relkind = 'r' AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY 1, 2
"""
_CONSTRAINTS = """
SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = '"{schema}"'::regnamespace ORDER BY 2, 1
"""
_RELATIONS = """
SELECT class.relname, class.relkind, class.reloptions, toast.reloptions, pg_get_userbyid(class.relowner),
    CASE WHEN class.relkind = 'i' THEN pg_get_indexdef(class.oid) END
FROM pg_class AS class LEFT JOIN pg_class AS toast ON toast.oid = class.reltoastrelid
WHERE class.relnamespace = '"{schema}"'::regnamespace ORDER BY 1
"""
_OTHERS = """
SELECT 'function', count(*) FROM pg_proc WHERE pronamespace = '"{schema}"'::regnamespace
UNION ALL SELECT 'trigger', count(*) FROM pg_trigger WHERE tgrelid IN (
    SELECT oid FROM pg_class WHERE relnamespace = '"{schema}"'::regnamespace
)
"""


class PostgresTables:
    """``url`` is of a database of its own."""

    package = "onward.drivers.postgres"

    def __init__(self, url: str, schema: str = "onward") -> None:
        self.url = url
        self.schema = schema
        self.prefix = f'"{schema}".'
        self.words: Mapping[str, str] = {"prefix": self.prefix, "schema": schema, "now": "statement_timestamp()"}

    def make_room(self) -> None:
        self.run(f'CREATE SCHEMA "{self.schema}"')

    def load(self, dump: str) -> None:
        text = (SCHEMAS / f"postgres_{dump}.sql").read_text(encoding="utf-8")
        self.run(text.replace('"onward".', self.prefix).replace('SCHEMA "onward"', f'SCHEMA "{self.schema}"'))

    def store(self, *, migrate: bool = False) -> Store:
        url = self.url if self.schema == "onward" else f"{self.url}?schema={self.schema}"
        return connect(url, clock=FakeClock(), migrate=migrate)

    def run(self, script: str) -> None:
        with self.connected() as connection:
            connection.execute(script.replace("{prefix}", self.prefix).encode())

    def rows(self, query: str) -> Rows:
        with self.connected() as connection:
            return connection.execute(query.replace("{prefix}", self.prefix).encode()).fetchall()

    def catalog(self) -> Any:
        return [self._look(query) for query in (_COLUMNS, _CONSTRAINTS, _RELATIONS, _OTHERS)]

    def _look(self, query: str) -> list[str]:
        return [repr(row).replace(self.schema, "SCHEMA") for row in self.rows(query.replace("{schema}", self.schema))]

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            # In other zones the last moment of the year 9999, which stands for ever, is one that Python cannot read.
            connection.execute("SET timezone = 'UTC'")
            yield connection
