"""Where a demo's tables go in a Postgres database: two schemas of its own, made anew by each run. Nothing else there is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from onward import Onward, OnwardError


class Refused(Exception):
    """The demo cannot run where it was told to; the text is one line that says why."""


class DemoSchemas:
    """The schemas of the demo of an example, which is called as its folder.

    ``connect`` opens a connection of psycopg to a URL, on which every statement commits by itself.
    """

    def __init__(self, example: str, connect: Callable[[str], Any]) -> None:
        self.own = f"{example}_demo"
        """The schema of the application's tables."""
        self.onwards = f"{example}_demo_onward"
        """The schema of Onward's tables."""
        self.mark = f"Made by examples.{example}.demo, which drops it when it runs again."
        self._demo = f"examples.{example}.demo"
        self._connect = connect

    @contextmanager
    def fresh(self, url: str) -> Iterator[str]:
        """Drop the schemas of an earlier demo, make them anew, and give the URL that leads into them. Raises ``Refused``.

        They stay afterwards, to be looked at. As long as the block lasts no other demo may use the database.
        """
        inside = self.lead_into(url)
        try:
            Onward(url).close()  # which names an option that is written wrongly, and says if there is no psycopg
        except OnwardError as error:
            raise Refused(f"DEMO_URL: {error}") from None
        failures = import_module("psycopg").Error
        try:
            connection = self._connect(url)
        except failures as error:
            raise Refused(f"the database in DEMO_URL cannot be used: {_first_line(error)}") from None
        with closing(connection):
            try:
                self._make_anew(connection)
            except failures as error:
                raise Refused(f"the demo cannot make its schemas in the database in DEMO_URL: {_first_line(error)}") from None
            yield inside

    def lead_into(self, url: str) -> str:
        """Add to a URL what makes Onward and the application find their schemas. Raises ``Refused``."""
        place, _, query = url.partition("?")
        settings = dict(parse_qsl(query, keep_blank_values=True))
        if "schema" in settings:
            raise Refused("the demo makes schemas of its own: leave schema= out of DEMO_URL")
        settings["schema"] = self.onwards
        settings["options"] = f"{settings.get('options', '')} -csearch_path={self.own}".strip()
        return f"{place}?{urlencode(settings, quote_via=quote)}"

    def _make_anew(self, connection: Any) -> None:
        # Held until the connection is closed.
        if not connection.execute(f"SELECT pg_try_advisory_lock(hashtext('{self._demo}'))").fetchone()[0]:
            raise Refused("another demo is running in the database in DEMO_URL: wait for its end, or name another")
        comment = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
        both = (self.own, self.onwards)
        for schema in both:
            if connection.execute(comment, [schema]).fetchone() not in (None, (self.mark,)):
                raise Refused(f"the database in DEMO_URL has a schema {schema} that no demo has made: name another database")
        made = "".join(f"CREATE SCHEMA {schema}; COMMENT ON SCHEMA {schema} IS '{self.mark}';" for schema in both)
        connection.execute(f"SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {self.own}, {self.onwards} CASCADE; {made}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
