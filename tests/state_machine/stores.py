"""The stores that are driven together: how each is made, emptied, and closed and opened again."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from onward.clock import Clock, FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.memory import MemoryStore
from onward.drivers.postgres.url import read_url
from onward.drivers.sql.migrations import TABLES


class SharedClock:
    """One fake clock for all stores; each example begins with a new one."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self.fake = FakeClock()
        self.now = self.fake.now
        self.monotonic = self.fake.monotonic


class Place(ABC):
    """Where a store keeps its jobs, for any number of examples one after the other."""

    name: str

    @abstractmethod
    def emptied(self) -> Store:
        """Give the store, with nothing in it."""

    @abstractmethod
    def reopened(self, store: Store) -> Store:
        """Close the store, and give another object over the same jobs, as another process would have it."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is open."""


class Memory(Place):
    """Jobs in a process; there is nothing to open again but the store itself."""

    def __init__(self, clock: Clock, make: Callable[..., MemoryStore] = MemoryStore) -> None:
        self.name = "memory" if make is MemoryStore else make.__name__
        self._clock = clock
        self._make = make

    def emptied(self) -> Store:
        return self._make(clock=self._clock)

    def reopened(self, store: Store) -> Store:
        store.close()
        store.open()
        return store

    def close(self) -> None:
        pass


class Database(Place):
    """Jobs in tables, which are made once and emptied for each example."""

    def __init__(self, clock: Clock, url: str) -> None:
        self.name = url.partition(":")[0]
        self._url = url
        self._clock = clock
        self._store = self._connect()
        self._store.open()

    def emptied(self) -> Store:
        self.empty()
        return self._store

    def reopened(self, store: Store) -> Store:
        store.close()
        self._store = self._connect()
        return self._store

    def close(self) -> None:
        self._store.close()

    @abstractmethod
    def empty(self) -> None:
        """Delete every row."""

    def _connect(self) -> Store:
        return connect(self._url, clock=self._clock, migrate=True)


class SQLite(Database):
    def __init__(self, clock: Clock, path: Path) -> None:
        super().__init__(clock, f"sqlite:///{path}")
        self._connection = sqlite3.connect(path, isolation_level=None)

    def empty(self) -> None:
        statements = "".join(f"DELETE FROM onward_{name};" for name in TABLES)
        self._connection.executescript(f"BEGIN IMMEDIATE; {statements} COMMIT;")

    def close(self) -> None:
        super().close()
        self._connection.close()


class Postgres(Database):
    def __init__(self, clock: Clock, url: str) -> None:
        super().__init__(clock, url)
        conninfo, options = read_url(url)
        self._connection = psycopg.connect(conninfo, autocommit=True)
        names = [sql.Identifier(options["schema"], name) for name in TABLES]
        self._deletes = sql.SQL("; ").join([sql.SQL("DELETE FROM {}").format(name) for name in names])

    def empty(self) -> None:
        self._connection.execute(self._deletes)

    def close(self) -> None:
        super().close()
        self._connection.close()
