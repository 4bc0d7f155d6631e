"""Where the demo's jobs go in a Postgres database: two schemas of its own, made anew by each run. Nothing else there is touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from examples.files.database import connect

OWN = "files_demo"
"""The schema of the application's view and table."""
ONWARDS = "files_demo_onward"
"""The schema of Onward's tables."""
MARK = "Made by examples.files.demo, which drops it when it runs again."


class Refused(Exception):
    """The demo cannot run where it was told to; the text is one line that says why."""


@contextmanager
def fresh_schemas(url: str) -> Iterator[str]:
    """Drop the schemas of an earlier demo, make them anew, and give the URL that leads into them. Raises ``Refused``.

    They stay afterwards, to be looked at. As long as the block lasts no other demo may use the database.
    """
    try:
        from psycopg import Error
    except ImportError as error:
        raise Refused(f"Postgres needs psycopg: pip install 'onward[postgres]' ({error})") from None

    inside = lead_into_schemas(url)
    try:
        connection = connect(url)
    except Error as error:
        raise Refused(f"the database in DEMO_URL cannot be used: {_first_line(error)}") from None
    with closing(connection):
        try:
            _make_anew(connection)
        except Error as error:
            raise Refused(f"the demo cannot make its schemas in the database in DEMO_URL: {_first_line(error)}") from None
        yield inside


def lead_into_schemas(url: str) -> str:
    """Add to a URL what makes Onward and the application find their schemas. Raises ``Refused``."""
    place, _, query = url.partition("?")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    if "schema" in settings:
        raise Refused("the demo makes schemas of its own: leave schema= out of DEMO_URL")
    settings["schema"] = ONWARDS
    settings["options"] = f"{settings.get('options', '')} -csearch_path={OWN}".strip()
    return f"{place}?{urlencode(settings, quote_via=quote)}"


def _make_anew(connection: Any) -> None:
    # Held until the connection is closed.
    if not connection.execute("SELECT pg_try_advisory_lock(hashtext('examples.files.demo'))").fetchone()[0]:
        raise Refused("another demo is running in the database in DEMO_URL: wait for its end, or name another")
    comment = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
    for schema in (OWN, ONWARDS):
        if connection.execute(comment, [schema]).fetchone() not in (None, (MARK,)):
            raise Refused(f"the database in DEMO_URL has a schema {schema} that no demo has made: name another database")
    made = "".join(f"CREATE SCHEMA {schema}; COMMENT ON SCHEMA {schema} IS '{MARK}';" for schema in (OWN, ONWARDS))
    connection.execute(f"SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {OWN}, {ONWARDS} CASCADE; {made}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
