"""No transaction of the store's upkeep grows with what there is to do: others write in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.drivers.postgres.url import read_url
from onward.drivers.sql import sweep
from onward.drivers.sql import turn as sql_turn
from onward.drivers.sql.statements import Operation
from onward.drivers.sqlite import misdated
from onward.drivers.sqlite.driver import SQLiteStore
from onward.inspection import JobFilter, Retention
from onward.status import Status
from onward.testing.conformance.steps import claim, demand
from onward.testing.factories import make_new_job

MANY = 5
SOON = timedelta(seconds=10)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with closing(connect(database_url, clock=FakeClock(), migrate=True)) as store:
        yield store


def ask(store: Store, question: str) -> Any:
    """The first column of the first row, asked of the database itself."""
    if isinstance(store, SQLiteStore):
        with closing(sqlite3.connect(store.path)) as connection:
            return connection.execute(question.format("onward_")).fetchone()[0]
    with psycopg.connect(read_url(store.url)[0]) as connection:
        row = connection.execute(question.format("onward.").encode()).fetchone()
        assert row is not None
        return row[0]


def advance(store: Store, seconds: float) -> None:
    assert isinstance(store.clock, FakeClock)
    store.clock.advance(seconds)


def test_a_sweep_ends_only_so_many_that_came_too_late(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "EXPIRED_PER_SWEEP", MANY - 2)
    store.enqueue([make_new_job(expires=SOON) for _ in range(MANY)])
    advance(store, SOON.total_seconds())
    assert [len(store.sweep().expired) for _ in range(3)] == [MANY - 2, 2, 0]


def test_jobs_are_unblocked_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    real: Callable[[Collection[str], datetime], Operation[int]] = sweep.unblock

    def counted(types: Collection[str], now: datetime) -> Operation[int]:
        batches.append((yield from real(types, now)))
        return batches[-1]

    monkeypatch.setattr(sweep, "UNBLOCKED_AT_ONCE", 2)
    monkeypatch.setattr(sweep, "unblock", counted)
    store.enqueue([make_new_job("strange") for _ in range(MANY)])
    claim(store)
    assert store.sweep(["strange"]).unblocked == MANY
    assert batches == [2, 2, 1]


def test_a_claim_chooses_among_only_so_many_that_were_set_aside(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_turn, "BLOCKED_PER_TURN", 2)
    store.enqueue([make_new_job("strange", queue=queue) for queue in ("one", "other") for _ in range(MANY)])
    claim(store)
    for queues in ((), ("one",)):
        turn = store.turn(demand=demand(MANY, types=("strange",), queues=queues, unblocks=True))
        assert (len(turn.claims), turn.leaves_blocked) == (2, True)


def test_a_prune_removes_only_so_many_keys(store: Store) -> None:
    store.enqueue([make_new_job(key=str(number), scope=SOON) for number in range(MANY)])
    store.enqueue([make_new_job(key="held", scope=SOON * 10)])
    advance(store, SOON.total_seconds())
    left = []
    for _ in range(4):
        store.prune(Retention(), limit=2)
        left.append(ask(store, "SELECT count(*) FROM {}keys"))
    assert left == [4, 2, 1, 1]


def test_a_sweep_sets_only_so_many_aside_that_would_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite alone: Postgres takes nothing that is no instant."""
    monkeypatch.setattr(misdated, "MISDATED_PER_LANE", 2)
    with closing(SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())) as store:
        store.enqueue([make_new_job() for _ in range(MANY)])
        with closing(sqlite3.connect(store.path)) as connection, connection:
            connection.execute("UPDATE onward_jobs SET scheduled_at = 'soon'")
        counts = []
        for _ in range(3):
            store.sweep()
            counts.append(store.count(JobFilter(statuses=(Status.DEAD_LETTER,))))
        assert counts == [2, 4, MANY]
