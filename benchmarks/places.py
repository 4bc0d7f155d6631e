"""Where a measurement takes place: an empty file or database on this machine, what it has done so far, and the processes beside it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from benchmarks.subjects import ONWARD, module_of
from tests.postgres_databases import Databases
from tests.postgres_server import Server

# By the indexes, however many rows there are: all that is measured is enqueued with the usual queue and priority.
ONWARD_UNFINISHED = """
SELECT (SELECT count(*) FROM {0} WHERE status = 'in_progress') + (
    SELECT count(*) FROM {0} WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL
        AND queue = 'default' AND priority = 0 AND scheduled_at < {1}
)"""


class Place:
    """One store, empty at first. ``subject`` says whose tables are in it."""

    def __init__(self, store: str, subject: str, url: str) -> None:
        self.store, self.subject, self.url = store, subject, url

    def execute(self, statement: str) -> list[Any]:
        """Run one statement by itself, past everybody, and give its rows."""
        if self.store == "sqlite":
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)) as connection:
                return connection.execute(statement).fetchall()
        with psycopg.connect(self.url, autocommit=True) as server:
            cursor = server.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def unfinished(self) -> int:
        """How many jobs are due or running."""
        if self.subject != ONWARD:
            statement = module_of(self.subject, self.url).UNFINISHED
        elif self.store == "sqlite":
            statement = ONWARD_UNFINISHED.format("onward_jobs", "strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+1 hour')")
        else:
            statement = ONWARD_UNFINISHED.format("onward.jobs", "now() + interval '1 hour'")
        return int(self.execute(statement)[0][0])

    def settle_down(self) -> None:
        """Leave behind what filling it has left: plans on Postgres, the log on SQLite."""
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)" if self.store == "sqlite" else "VACUUM ANALYZE")


@contextmanager
def empty_place(store: str, subject: str, databases: Databases | None, folder: Path | None = None) -> Iterator[Place]:
    """Make one, and remove it afterwards."""
    if store == "sqlite":
        home = Path(tempfile.mkdtemp(prefix="onward-benchmark-", dir=folder))
        try:
            yield Place(store, subject, f"sqlite:///{home / 'jobs.db'}")
        finally:
            shutil.rmtree(home)
        return
    assert databases is not None
    url = databases.create()
    try:
        yield Place(store, subject, url)
    finally:
        databases.drop(url)


@contextmanager
def postgres_databases(server: Server) -> Iterator[Databases]:
    """Databases on this server, for as long as the measurements last."""
    with Databases(server) as databases:
        yield databases


def tree(process: psutil.Popen) -> list[psutil.Process]:
    """A process and all that came of it."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def processor_seconds(processes: list[psutil.Process]) -> float:
    """What they have taken so far, together."""
    total = 0.0
    for process in processes:
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system
    return total


def machine() -> dict[str, str]:
    """What the figures depend on."""
    import platform

    memory = psutil.virtual_memory().total / 2**30
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "processors": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
    }
