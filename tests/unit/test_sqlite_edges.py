"""What a SQLite file may hold that is not ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import SchemaOutOfDate


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
