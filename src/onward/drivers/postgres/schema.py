"""The tables of one store: whether they are there and fit, looked at once in a process, and made where that was asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from onward.drivers.postgres.connections import StoreConnection, complete
from onward.drivers.postgres.deadlines import Deadlines
from onward.drivers.postgres.migrate import migrate, migration_sql, newest, version
from onward.drivers.postgres.vendor_errors import translate
from onward.errors import SchemaOutOfDate

ANSWER_WITHIN = 60.0
"""Seconds after which a server that does not answer about its tables, or does not change them, counts as gone."""


class Schema:
    """Every error that leaves is one of ``onward.errors``."""

    def __init__(self, url: str, schema: str, *, migrate: bool, place: str) -> None:
        self.name = schema
        self._url = url
        self._may_migrate = migrate
        self._place = place
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._found: int | None = None

    def open(self) -> int:
        """Check the tables, the first time that this is called in a process, and give their version.

        Raises ``SchemaOutOfDate`` when they are missing, older or too new, and ``StoreUnavailable``.
        """
        if self._found is not None:
            return self._found
        if self._pid != os.getpid():  # forked while another thread looked
            self._pid, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if self._found is None:
                self._found = self._look()
            return self._found

    def _look(self) -> int:
        with self._connected() as connection:
            found = version(connection, self.name)
            if found < newest() and self._may_migrate:
                migrate(connection, self.name)
                found = version(connection, self.name)
        if found < newest():
            what = "has no tables of Onward" if found == 0 else f"has tables of version {found}, and this Onward needs {newest()}"
            raise SchemaOutOfDate(f"{self._place} {what}: pass migrate=True, or run onward migrate")
        return found

    def migrate(self) -> int:
        """Make or change the tables. Gives their version."""
        with self._connected() as connection:
            migrate(connection, self.name)
            self._found = version(connection, self.name)
        return self._found

    def needs_migration(self) -> bool:
        with self._connected() as connection:
            return version(connection, self.name) < newest()

    def migration_sql(self) -> str:
        """The script that brings the tables from what they are to the newest version."""
        with self._connected() as connection:
            return migration_sql(version(connection, self.name), self.name)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with StoreConnection.connect(complete(self._url, "onward"), autocommit=True) as connection:
                connection.deadlines, connection.patience = Deadlines(), ANSWER_WITHIN
                yield connection
        except (psycopg.Error, OSError) as error:
            raise translate(error, self._place) from error
