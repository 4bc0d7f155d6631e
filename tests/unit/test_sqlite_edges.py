"""What a SQLite file may hold that is not ours, what its errors become, and what is kept open."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.connection import create
from onward.drivers.sqlite.driver import SQLiteStore
from onward.drivers.sqlite.readers import Readers
from onward.drivers.sqlite.vendor_errors import translate
from onward.errors import SchemaOutOfDate, StoreError, StoreUnavailable


@pytest.mark.parametrize("made", ["CREATE TABLE onward_jobs (id)", "CREATE VIEW onward_jobs AS SELECT 1 AS id"], ids=["table", "view"])
def test_a_table_or_view_of_the_applications_with_our_name_is_left_alone(tmp_path: Path, made: str) -> None:
    """A migration over it would fail in the middle, with the words of SQLite."""
    file = tmp_path / "jobs.db"
    connection = sqlite3.connect(file)
    connection.execute(made)
    connection.close()
    store = SQLiteStore(file, clock=FakeClock())
    with pytest.raises(SchemaOutOfDate, match="that Onward did not make"):
        store.open()
    store.close()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("no such table: onward_jobs", SchemaOutOfDate),
        ("no such column: fence", SchemaOutOfDate),
        ("table onward_jobs has no column named fence", SchemaOutOfDate),
        ("interrupted", StoreUnavailable),
    ],
)
def test_only_what_a_migration_can_mend_asks_for_one(text: str, kind: type[StoreError]) -> None:
    assert type(translate(sqlite3.OperationalError(text), "jobs.db")) is kind


def test_a_reading_connection_is_kept_for_the_next_reader_until_the_pool_is_closed(tmp_path: Path) -> None:
    """To open one takes longer than to read; whoever reads while the pool is closed gives back what nobody wants any more."""
    file = tmp_path / "jobs.db"
    create(file)
    readers, deadline = Readers(file), time.monotonic() + 60
    first = readers.read(lambda cursor: cursor.connection, deadline)

    def close_meanwhile(cursor: sqlite3.Cursor) -> sqlite3.Connection:
        readers.close()
        return cursor.connection

    assert readers.read(close_meanwhile, deadline) is first
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.execute("SELECT 1")
