"""Databases and schemas of the tests' own on a Postgres server, made quickly and dropped again, also those of a run that was killed."""

from __future__ import annotations

import itertools
import secrets
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.postgres_server import Server

PREFIX = "onward_test_"
_LOCK = 7_302_518
"""First half of an advisory lock; the second half is the run that holds it."""
KEPT_SCHEMA = "onward_kept"
KEPT_TABLE = "schema_version"
"""The table whose rows belong to the form of the others."""


class Databases:
    """What one process of a test run makes on one server. Close it at the end, or use it in a ``with`` block.

    Every name begins with a number of this process's own, on which it holds an advisory lock: so the next run can tell what a killed one
    left behind, and drops it.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._administrator = _connect(server.url)
        self._run = secrets.randbelow(2**31 - 1)
        self._administrator.execute("SELECT pg_advisory_lock(%s, %s)", [_LOCK, self._run])
        self._numbers = itertools.count(1)
        self._made: list[str] = []
        self._shared: psycopg.Connection[Any] | None = None
        try:
            self._drop_leftovers()
        except BaseException:
            self.close()
            raise

    # -- databases -------------------------------------------------------------------------------------------------------

    def create(self) -> str:
        """Make an empty database, and give its URL. About 50 ms."""
        name = f"{PREFIX}{self._run:08x}_{next(self._numbers)}"
        self._administrator.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        self._made.append(name)
        return self._server.database(name)

    def drop(self, url: str) -> None:
        """Drop one, whoever is connected with it."""
        for name in [name for name in self._made if self._server.database(name) == url]:
            self._drop(name)
            self._made.remove(name)

    # -- schemas in one database -------------------------------------------------------------------------------------------

    def new_schema(self) -> str:
        """Give the URL of a schema that is not there yet, in a database that is shared with the other schemas of this process."""
        return self._with_schema(f"onward_{next(self._numbers)}")

    def drop_schema(self, url: str) -> None:
        """Drop a schema, if it was made, whoever still has a transaction open in it."""
        self._insist(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(url.rpartition("schema=")[2])))

    def emptied(self) -> str:
        """Give the URL of the schema that this process keeps, with every row gone that a test before has left. Made by its first user.

        About 2 ms, where making the tables anew would take 50.
        """
        found = self._in_shared.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> %s", [KEPT_SCHEMA, KEPT_TABLE]
        )
        deletes = [sql.SQL("DELETE FROM {}").format(sql.Identifier(KEPT_SCHEMA, name)) for (name,) in found]
        if deletes:
            self._insist(sql.SQL("; ").join(deletes))
        return self._with_schema(KEPT_SCHEMA)

    def close(self) -> None:
        """Drop all that was made."""
        if self._shared is not None:
            self._shared.close()
        for name in self._made:
            self._drop(name)
        self._administrator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _in_shared(self) -> psycopg.Connection[Any]:
        if self._shared is None:
            self._shared_url = self.create()
            self._shared = _connect(self._shared_url)
        return self._shared

    def _with_schema(self, name: str) -> str:
        assert self._in_shared
        return f"{self._shared_url}{'&' if '?' in self._shared_url else '?'}schema={quote(name)}"

    def _insist(self, statement: sql.Composed) -> None:
        """Run it; if somebody's open transaction is in the way, end that one's connection: its test has ended, or has failed."""
        try:
            self._in_shared.execute(statement)
        except psycopg.errors.LockNotAvailable:
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            self._in_shared.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}".encode())
            self._in_shared.execute(statement)

    def _drop(self, name: str) -> None:
        self._administrator.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _drop_leftovers(self) -> None:
        found = self._administrator.execute("SELECT datname FROM pg_database WHERE datname ~ %s", [f"^{PREFIX}[0-9a-f]{{8}}_[0-9]+$"])
        for (name,) in found.fetchall():
            run = int(name.removeprefix(PREFIX)[:8], 16)
            if run == self._run:
                continue
            row = self._administrator.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCK, run]).fetchone()
            if row == (True,):
                self._drop(name)
                self._administrator.execute("SELECT pg_advisory_unlock(%s, %s)", [_LOCK, run])


def _connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, connect_timeout=5, options="-c lock_timeout=500ms -c client_min_messages=warning")
