"""The Postgres that a machine has already, and what the tests do where there is none."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.loopback import HOST

ASKED = "ONWARD_TEST_POSTGRES"
OLDEST = 14
POSTGRES_SERVERS = ("postgres", "postgres-wheel")
"""The names under which fixtures know the servers: what this machine has, and the wheel's."""


class NoPostgres(Exception):
    """There is no server for the tests. Says why, and what to do."""


def do_without(reason: NoPostgres) -> NoReturn:
    """A test that needs Postgres must not pass unseen where a server is meant to be there; elsewhere it is skipped."""
    if os.environ.get("CI") == "true" or ASKED in os.environ:
        pytest.fail(f"there is no Postgres for this test: {reason}", pytrace=False)
    pytest.skip(f"there is no Postgres for this test: {reason}")


@dataclass(frozen=True)
class Server:
    """A running server: the URL of a database in which to administer it, and its release (15 for 15.4)."""

    url: str
    release: int

    def database(self, name: str) -> str:
        """The URL of another of its databases."""
        parts = urlsplit(self.url)  # not put together by urlunsplit: of a URL without a host it drops the slashes
        return f"{parts.scheme}://{parts.netloc}/{name}{parts.query and f'?{parts.query}'}"

    def execute(self, sql: str, parameters: Sequence[Any] | None = None, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement by itself on a new connection, and give its rows."""
        url = self.url if database is None else self.database(database)
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(sql.encode(), parameters)
            return cursor.fetchall() if cursor.description is not None else []


def find_server() -> Server | None:
    """The server that ``ONWARD_TEST_POSTGRES`` names, else one at the usual address of this machine, else None.

    Raises ``NoPostgres`` when the one that is named cannot be used: then the tests must not silently take another.
    """
    named = os.environ.get(ASKED)
    if named:
        try:
            return _probe(named)
        except (psycopg.Error, NoPostgres) as error:
            raise NoPostgres(f"the server that {ASKED} names cannot be used: {error}") from error
    me = getpass.getuser()
    addresses = (
        f"postgres@{HOST}:5432/postgres",
        f"{me}@{HOST}:5432/postgres",
        "/postgres?host=/var/run/postgresql",
        "/postgres?host=/tmp",
    )
    for address in addresses:
        try:
            return _probe(f"postgresql://{address}")
        except (psycopg.Error, NoPostgres):
            continue
    return None


def _probe(url: str) -> Server:
    with psycopg.connect(url, connect_timeout=3) as connection:
        release = connection.info.server_version // 10_000
        row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if release < OLDEST:
        raise NoPostgres(f"it is a Postgres {release}, and Onward needs {OLDEST} or newer")
    if row != (True,):
        raise NoPostgres("its role is no superuser, and the tests make databases and end connections")
    return Server(url, release)
