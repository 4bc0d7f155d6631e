"""How dead letters are read beside rows that somebody wrote by hand, into columns that take anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.outcome import DeadLettered
from onward.testing.conformance.steps import claim
from onward.testing.factories import make_new_job
from onward.turn import Settlement


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(tmp_path / "jobs.db", clock=clock)) as store:
        yield store


def die(store: SQLiteStore, count: int) -> list[str]:
    """So many dead letters, one a second, by their ends."""
    store.enqueue([make_new_job() for _ in range(count)])
    ids = []
    for _ in range(count):
        (taken,) = claim(store)
        store.turn([Settlement(claim=taken, outcome=DeadLettered("x"))])
        assert isinstance(store.clock, FakeClock)
        store.clock.advance(1)
        ids.append(taken.id)
    return ids


def test_a_row_that_cannot_be_read_hides_no_other(store: SQLiteStore) -> None:
    """Not even a whole page of them."""
    ids = die(store, 5)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE onward_jobs SET attempts = 'many' WHERE id IN (?, ?)", ids[1:3])
        connection.execute("UPDATE onward_jobs SET finished_at = 5 WHERE id = ?", ids[:1])
    (first,) = store.dead_letters(limit=1)
    assert first.id == ids[4]
    (second,) = store.dead_letters(limit=1, before=first)
    assert second.id == ids[3]
    assert store.dead_letters(limit=1, before=second) == []


def test_a_moment_without_a_zone_counts_as_utc(store: SQLiteStore) -> None:
    """Whoever wrote it by hand meant some moment."""
    ids = die(store, 1)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE onward_jobs SET finished_at = '2026-01-02T00:00:00'")
    (found,) = store.dead_letters()
    assert (found.id, found.finished_at.isoformat()) == (ids[0], "2026-01-02T00:00:00+00:00")
