"""Callers on SQLite: which file the tables are in that a connection finds."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onward.driver import Store
from onward.errors import NoTransaction
from onward.inspection import JobFilter
from onward.testing.factories import make_new_job
from tests.drivers.borrowed.test_another_store import opened


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two stores, in ``app.db`` and ``other.db``."""
    with closing(opened(f"sqlite:///{tmp_path}/app.db")) as ours, closing(opened(f"sqlite:///{tmp_path}/other.db")) as theirs:
        yield ours, theirs


def connected(path: str | Path, *statements: str, **options: Any) -> sqlite3.Connection:
    connection = sqlite3.connect(str(path), isolation_level=None, **options)
    for statement in (*statements, "BEGIN IMMEDIATE"):
        connection.execute(statement)
    return connection


def lands_in(store: Store, connection: sqlite3.Connection) -> bool:
    (accepted,) = store.within(connection).enqueue([make_new_job()])
    connection.execute("COMMIT")
    connection.close()
    return store.get(accepted.id).id == accepted.id


def is_refused(store: Store, connection: sqlite3.Connection) -> bool:
    with pytest.raises(NoTransaction, match="no transaction spans both"):
        store.within(connection).enqueue([make_new_job()])
    assert connection.in_transaction
    connection.close()
    return True


def test_other_ways_to_the_same_file_are_the_same(files: tuple[Store, Store], tmp_path: Path) -> None:
    """A link to it or to its folder, a relative path, a URI."""
    ours, _ = files
    (tmp_path / "linked.db").symlink_to(tmp_path / "app.db")
    (tmp_path / "folder").symlink_to(tmp_path)
    for path in (tmp_path / "linked.db", tmp_path / "folder" / "app.db", os.path.relpath(tmp_path / "app.db")):
        assert lands_in(ours, connected(path))
    assert lands_in(ours, connected(f"file:{tmp_path}/app.db?mode=rw", uri=True))


def test_a_store_behind_a_link_is_the_same_as_its_file(files: tuple[Store, Store], tmp_path: Path) -> None:
    """The link may be on the store's side as well."""
    (tmp_path / "linked.db").symlink_to(tmp_path / "app.db")
    with closing(opened(f"sqlite:///{tmp_path}/linked.db")) as store:
        assert lands_in(store, connected(tmp_path / "app.db"))


def test_attached_files_are_told_apart(files: tuple[Store, Store], tmp_path: Path) -> None:
    """SQLite takes the tables of the first file that has them."""
    ours, theirs = files
    attach_ours, attach_theirs = f"ATTACH '{tmp_path}/app.db' AS jobs", f"ATTACH '{tmp_path}/other.db' AS jobs"
    assert lands_in(ours, connected(tmp_path / "data.db", attach_ours))
    assert lands_in(ours, connected(tmp_path / "app.db", attach_theirs))
    assert is_refused(ours, connected(tmp_path / "data.db", attach_theirs))
    assert is_refused(ours, connected(tmp_path / "other.db", attach_ours))
    assert (ours.count(JobFilter()), theirs.count(JobFilter())) == (2, 0)


def test_tables_that_end_with_the_connection_are_refused(files: tuple[Store, Store]) -> None:
    """In memory, or temporary ones that hide those of the file."""
    ours, _ = files
    path = ours.url.removeprefix("sqlite:///")
    in_memory = sqlite3.connect(":memory:", isolation_level=None)
    with closing(sqlite3.connect(path)) as source:
        source.backup(in_memory)
    in_memory.execute("BEGIN")
    assert is_refused(ours, in_memory)
    assert is_refused(ours, connected(path, "CREATE TEMP TABLE onward_jobs AS SELECT * FROM main.onward_jobs"))


@pytest.mark.skipif(sys.platform == "win32", reason="SQLite resolves no links there")
def test_a_second_name_of_the_file_is_refused(files: tuple[Store, Store], tmp_path: Path) -> None:
    """A hard link has a log of its own beside it, in which nobody else looks; SQLite itself says that it spoils the file."""
    ours, _ = files
    os.link(tmp_path / "app.db", tmp_path / "second.db")
    ours.close()  # else SQLite itself refuses to open it, in this process
    assert is_refused(ours, connected(tmp_path / "second.db"))
