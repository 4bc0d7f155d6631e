"""The record of actions on a real database: rows that a person wrote, and one commit for the deed and its count."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onward.actions import new_action
from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.postgres.url import read_url
from onward.drivers.sql import actions
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import StoreError
from onward.inspection import JobFilter
from onward.status import Status
from onward.testing.factories import make_new_job

COLUMNS = "(id, actor, verb, filter, matched, began_at)"


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with closing(connect(database_url, clock=FakeClock(), migrate=True)) as store:
        store.open()
        yield store


@pytest.fixture
def run(store: Store) -> Callable[[str], None]:
    """Run a statement behind the store's back; ``{}`` stands before a table's name."""

    def run_one(statement: str) -> None:
        if isinstance(store, SQLiteStore):
            with closing(sqlite3.connect(store.path)) as connection, connection:
                connection.execute(statement.format("onward_"))
        else:
            with psycopg.connect(read_url(store.url)[0]) as connection:
                connection.execute(statement.format("onward.").encode())

    return run_one


def test_a_row_that_a_person_wrote_does_not_hide_the_others(store: Store, run: Callable[[str], None]) -> None:
    """A verb that is not known is shown as it stands: a later release may have one more."""
    store.pause("mail", actor="ada")
    run(f"INSERT INTO {{}}actions {COLUMNS} VALUES ('a', 'me', 'explode', 'all of them', 1, '2026-01-01T00:00:00Z')")
    assert {one.verb for one in store.actions()} == {"explode", "pause"}


@pytest.mark.parametrize(
    "row",
    [
        "('b', 'me', 'pause', '', 1, 'yesterday')",
        "('b', 'me', 'pause', '', 'x', '2026-01-01T00:00:00Z')",
        "('b', x'00', '', '', 1, '2026-01-01T00:00:00')",
    ],
)
def test_a_row_that_no_program_can_read_is_left_out(store: Store, run: Callable[[str], None], row: str) -> None:
    """On SQLite alone: the columns of Postgres take no such thing."""
    if not isinstance(store, SQLiteStore):
        pytest.skip("Postgres refuses the row")
    store.pause("mail")
    run(f"INSERT INTO {{}}actions {COLUMNS} VALUES {row}")
    run(f"INSERT INTO {{}}actions {COLUMNS} VALUES ('c', '', 'pause', '', 1, '2026-01-01T00:00:00')")
    assert [one.verb for one in store.actions()] == ["pause"]


def test_a_portion_that_fails_counts_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count and the jobs are one commit: neither is there without the other."""
    jobs = [make_new_job() for _ in range(3)]
    store.enqueue(jobs)
    action = new_action("cancel", JobFilter(), actor="", matched=3)
    store.begin_action(action)

    def fail(action_id: str, acted: Any) -> Any:
        yield from count(action_id, acted)
        raise StoreError("the disk is full")

    count = actions.count
    monkeypatch.setattr(actions, "count", fail)
    with pytest.raises(StoreError, match="the disk is full"):
        store.act("cancel", [job.id for job in jobs], action=action.id)
    assert (store.count(JobFilter(statuses=(Status.QUEUED,))), store.actions()[0].done) == (3, 0)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_queue_is_not_changed_without_a_record(store: Store, run: Callable[[str], None], verb: str) -> None:
    """The same for what is done to a queue."""
    store.pause("other")
    run("DROP TABLE {}actions")
    with pytest.raises(StoreError):
        getattr(store, verb)("mail" if verb == "pause" else "other", actor="ada")
    assert list(store.paused()) == ["other"]
