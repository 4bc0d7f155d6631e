"""Applications on Django: the proxy ``django.db.connection``, and the wrapper behind it."""

from __future__ import annotations

import itertools
from typing import Any

import django
from django.conf import settings
from django.db import OperationalError, connections, transaction
from django.utils.connection import ConnectionProxy

from tests.drivers.borrowed.callers import Caller, Place

if not settings.configured:
    settings.configure(DATABASES={}, LOGGING_CONFIG=None, TIME_ZONE="UTC", USE_TZ=True)
    django.setup()
_numbers = itertools.count(1)


class Django(Caller):
    """``transaction.atomic`` around everything."""

    serialization_failure = OperationalError

    def open(self) -> None:
        self.alias = f"database{next(_numbers)}"
        connections.settings[self.alias] = connections.configure_settings({"default": {}, self.alias: self._settings()})[self.alias]
        self.wrapper = connections[self.alias]
        self.connection: Any = ConnectionProxy(connections, self.alias)

    def _settings(self) -> dict[str, Any]:
        if isinstance(self.place, str):
            return {"ENGINE": "django.db.backends.sqlite3", "NAME": self.place, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
        return {"ENGINE": "django.db.backends.postgresql", "NAME": self.place["dbname"], "OPTIONS": dict(self.place) | self.options}

    def begin(self) -> None:
        self._atomic = transaction.atomic(using=self.alias)
        self._atomic.__enter__()

    def commit(self) -> None:
        self._atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        transaction.set_rollback(True, using=self.alias)
        self._atomic.__exit__(None, None, None)

    def run(self, sql: str) -> None:
        with self.wrapper.cursor() as cursor:
            cursor.execute(sql)

    def savepoint(self) -> None:
        self._savepoint = transaction.savepoint(using=self.alias)

    def undo_savepoint(self) -> None:
        transaction.savepoint_rollback(self._savepoint, using=self.alias)

    def shut(self) -> None:
        self.wrapper.close()

    @classmethod
    def autocommit(cls, place: Place) -> Caller:
        made = cls(place)
        made.run("SELECT 1")
        return made


class DjangoWrapper(Django):
    """The connection of one database, as ``django.db.connections["name"]`` gives it."""

    def open(self) -> None:
        super().open()
        self.connection = self.wrapper
