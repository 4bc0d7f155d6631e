"""The application's view and table in the database that the jobs live in, and its own connection there: SQLite or Postgres."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from onward import Onward

Connection: TypeAlias = Any
"""Of sqlite3 or of psycopg; both have ``execute``."""

HERE = Path(__file__).parent
ONWARDS_OPTIONS = ("schema", "timeout", "connections", "notify", "prepare")
"""What a Postgres URL may say to Onward alone: libpq would refuse it."""
_PARAMETER = re.compile(r":(\w+)")


def install(app: Onward, url: str) -> None:
    """Make the view and the table, if they are not there."""
    app.store.open()
    with closing(connect(url)) as connection:
        if is_postgres(url):
            script = (HERE / "postgres.sql").read_text(encoding="utf-8")
            connection.execute(script.replace("onward.jobs", f'"{onwards_schema(url)}".jobs'))
        else:
            connection.executescript((HERE / "sqlite.sql").read_text(encoding="utf-8"))


def connect(url: str) -> Connection:
    """Open a connection on which every statement commits by itself. The caller closes it.

    One a question is enough here; an application with many readers would keep a pool.
    """
    if is_postgres(url):
        return import_module("psycopg").connect(for_libpq(url), autocommit=True, connect_timeout=10)
    return sqlite3.connect(unquote(urlsplit(url).path)[1:], timeout=10, isolation_level=None)


def execute(connection: Connection, sql: str, **values: object) -> Any:
    """Run a statement whose parameters are written ``:name``, as sqlite3 has them; psycopg has ``%(name)s``."""
    return connection.execute(sql if isinstance(connection, sqlite3.Connection) else _PARAMETER.sub(r"%(\1)s", sql), values)


def is_postgres(url: str) -> bool:
    """Say whether a URL names a Postgres database, or else a SQLite file. Raises ``SystemExit`` for anything else."""
    scheme = urlsplit(url).scheme
    if scheme not in ("postgresql", "postgres", "sqlite"):
        raise SystemExit(
            f"this example keeps its versions beside the jobs, and cannot in {scheme}://: "
            "give sqlite:///file.db or postgresql://user@host/database"
        )
    return scheme != "sqlite"


def onwards_schema(url: str) -> str:
    """The schema of Onward's tables; the application's own view and table are where the connection's search path leads."""
    return dict(parse_qsl(urlsplit(url).query)).get("schema", "onward")


def for_libpq(url: str) -> str:
    """Leave out of a Postgres URL what is only for Onward."""
    place, _, query = url.partition("?")
    rest = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name not in ONWARDS_OPTIONS]
    return f"{place}?{urlencode(rest, quote_via=quote)}" if rest else place
