"""Where a run has its store: a SQLite file, or a Postgres of its own behind a proxy, both as good as new."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from onward import Onward
from tests.postgres_wheel import OwnServer
from tests.tcp_proxy import TcpProxy
from tests.torture import tables
from tests.torture.report import sqlite_versions
from tests.torture.store import path_of

STORES = ("sqlite", "postgres")
BUSY = 2
"""Seconds that a write waits for another writer of the file: a fault that holds the lock for longer is quickly shown."""


class Site:
    """``url`` is what workers and senders are given, ``direct`` reaches the same past whatever stands between."""

    def __init__(self, name: str, url: str, direct: str, server: OwnServer | None = None, proxy: TcpProxy | None = None) -> None:
        self.name = name
        self.url = url
        self.direct = direct
        self.server = server
        self.proxy = proxy

    @property
    def postgres(self) -> OwnServer:
        assert self.server is not None
        return self.server

    @property
    def network(self) -> TcpProxy:
        assert self.proxy is not None
        return self.proxy

    def versions(self) -> dict[str, str]:
        """Programs and settings that the result depends on."""
        found = sqlite_versions()
        if self.server is None:
            return found
        for name in ("SQLite", "journal_mode", "synchronous"):
            found.pop(name, None)
        for name in ("server_version", "fsync", "synchronous_commit"):
            found[name] = str(self.server.execute(f"SHOW {name}")[0][0])
        has_amcheck = self.server.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'")[0][0]
        return found | {"psycopg": psycopg.__version__, "amcheck": "yes" if has_amcheck else "no"}

    def unfinished(self) -> int:
        """How many jobs are not final."""
        return int(self._ask("SELECT count(*) FROM {jobs} WHERE status IN ('queued', 'retrying', 'in_progress')")[0][0])

    def operations(self) -> int:
        """How many jobs were stored, and how often one was claimed."""
        return int(self._ask("SELECT count(*) + coalesce(sum(fence), 0) FROM {jobs}")[0][0])

    def claimants(self) -> set[int]:
        """The processes that hold a claim. Raises what its database does."""
        owners = self._ask("SELECT DISTINCT lease_owner FROM {jobs} WHERE status = 'in_progress'")
        return {int(owner.split(":")[1]) for (owner,) in owners}

    def _ask(self, question: str) -> list[tuple[Any, ...]]:
        if self.server is not None:
            return self.server.execute(question.format(jobs="onward.jobs"))
        with closing(sqlite3.connect(path_of(self.direct), timeout=10)) as connection:
            return connection.execute(question.format(jobs="onward_jobs")).fetchall()


@contextmanager
def new_site(name: str, folder: Path) -> Iterator[Site]:
    """Make a store with the tables of a run. Raises ``NoPostgres``."""
    if name == "sqlite":
        url = f"sqlite:///{folder / 'jobs.db'}?timeout={BUSY}s"
        _create(url)
        connection = sqlite3.connect(path_of(url))
        connection.executescript(tables.SQLITE)
        connection.close()
        yield Site(name, url, url)
        return
    server = OwnServer.make()
    try:
        _create(server.url)
        server.execute(tables.POSTGRES)
        with TcpProxy.before(server.url) as proxy:
            yield Site(name, proxy.through(server.url), server.url, server, proxy)
    finally:
        server.close()


def _create(url: str) -> None:
    app = Onward(url, migrate=True)
    app.store.open()
    app.close()
