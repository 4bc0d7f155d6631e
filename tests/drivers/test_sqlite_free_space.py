"""What a file of SQLite holds no more: used again, and given back where the file was set up for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite import free_space
from onward.drivers.sqlite.driver import SQLiteStore
from onward.drivers.sqlite.free_space import AT_ONCE, FEW, FreeSpace
from onward.inspection import Finding, Retention
from onward.outcome import Completed
from onward.testing.conformance.steps import claim
from onward.testing.factories import make_new_job
from onward.turn import Settlement

AT_ONCE_GONE = Retention(completed=timedelta(0))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteStore]:
    monkeypatch.setattr(free_space, "FEW", 20)
    with closing(SQLiteStore(tmp_path / "some jobs.db", clock=clock)) as store:
        store.open()
        yield store


def fill(store: SQLiteStore, count: int = 500) -> None:
    store.enqueue([make_new_job(payload="x" * 1000) for _ in range(count)])
    store.turn([Settlement(claim=one, outcome=Completed()) for one in claim(store, count)])


def pages(store: SQLiteStore) -> tuple[int, int]:
    """All of the file's, and those that are free."""
    with closing(sqlite3.connect(store.path)) as connection:
        return connection.execute("PRAGMA page_count").fetchone()[0], connection.execute("PRAGMA freelist_count").fetchone()[0]


def let_it_shrink(store: SQLiteStore) -> None:
    """As the documentation says."""
    store.close()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")


def finding(store: SQLiteStore) -> Finding:
    return next(one for one in store.examine() if one.name == "free space")


@pytest.mark.parametrize(
    ("pages", "free", "surplus"),
    [(5_000, FEW, 0), (5_000, FEW + 1, 1), (20_000, 2_000, 0), (20_000, 2_001, 1), (20_000, 12_000, 10_000), (0, 0, 0)],
)
def test_a_tenth_of_a_file_is_left_for_new_rows(pages: int, free: int, surplus: int) -> None:
    """And of a small one, all of it."""
    assert FreeSpace(pages=pages, free=free, page_size=4096, shrinks=True).surplus == surplus


def test_a_file_stays_as_large_as_it_was_and_is_used_again(store: SQLiteStore, clock: FakeClock) -> None:
    """It costs every enqueue less than a file that can shrink."""
    sizes = []
    for _ in range(4):
        fill(store)
        sizes.append(pages(store)[0])
        assert store.prune(AT_ONCE_GONE) == 500
        assert not store.give_back()
        clock.advance(1)
    assert sizes[1] == sizes[3]
    found = finding(store)
    assert found.level == "ok"
    assert found.text.endswith(f"with every worker stopped, sqlite3 '{store.path}' VACUUM gives them back")


def test_a_file_that_was_set_up_for_it_becomes_smaller_in_small_steps(store: SQLiteStore) -> None:
    """What is left free is a tenth of it, or what is nothing to speak of."""
    let_it_shrink(store)
    fill(store)
    full, _ = pages(store)
    assert store.prune(AT_ONCE_GONE) == 500
    assert finding(store).text.endswith("new jobs use them; workers give them back, a little at a time")
    before = pages(store)
    assert store.give_back()
    assert pages(store) == (before[0] - AT_ONCE, before[1] - AT_ONCE)
    while store.give_back():
        pass
    assert pages(store)[1] <= 20
    assert pages(store)[0] < full / 3
    fill(store, 3)


def test_nothing_is_said_of_giving_back_where_little_is_free(store: SQLiteStore) -> None:
    assert finding(store).text == "0 bytes of the file are free, and new jobs use them"
