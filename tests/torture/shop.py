"""The application that is tortured: jobs with an effect, with children, with files, and tables of its own beside Onward's."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from onward import JobContext, Onward, RetryPolicy, define_job
from onward.clock import Clock
from onward.definition import JobDefinition
from onward.files import FileJobs
from onward.ids import encode

TABLES = """
CREATE TABLE IF NOT EXISTS orders (job_id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS effects (job_id TEXT);
"""
"""``orders``: a row for each job ``ship``, made in one transaction with it. ``effects``: a row for each run of ``book`` that counts."""


def note(number: int) -> None:
    """Nothing to do."""


def book(number: int, context: JobContext) -> None:
    """One effect and one child, committed with the completion."""
    with context.transaction() as connection:
        connection.execute("INSERT INTO effects VALUES (?)", [context.job.id])
        context.enqueue(RECEIPT, number)


def anything(payload: dict[str, Any]) -> None:
    """What stores of older releases hold."""


NOTE = define_job("note", note, key=lambda number: f"note-{number}")
SHIP = define_job("ship", note)
BOOK = define_job("book", book, retry=RetryPolicy(max_attempts=5, base="100ms"))
RECEIPT = define_job("receipt", note)
WORK = define_job("work", anything, aliases=("mail", "other"))


class Shop:
    """The application over ``home``: the store in ``jobs.db``, files below ``base``."""

    def __init__(self, home: Path, clock: Clock | None = None) -> None:
        self.database = home / "jobs.db"
        self.base = home / "base"
        self.files = FileJobs(self.base)
        jobs: list[JobDefinition[Any]] = [NOTE, SHIP, BOOK, RECEIPT, WORK, *self.files.jobs]
        self.app = Onward(f"sqlite:///{self.database}", jobs=jobs, clock=clock)
        self.store = self.app.store

    def connect(self) -> sqlite3.Connection:
        """A connection of the application's own."""
        return sqlite3.connect(self.database, isolation_level=None, timeout=5)

    def close(self) -> None:
        self.app.close()


def make_tables(shop: Shop) -> None:
    """Make Onward's tables and the application's."""
    shop.store.open()
    connection = shop.connect()
    connection.executescript(TABLES)
    connection.close()
    shop.base.mkdir(exist_ok=True)


def job_id(number: int) -> str:
    """An id that is known before its job is."""
    return encode(number)
