"""Rows of breakers, limits and shared keys that somebody wrote by hand into a SQLite file: each stops only itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward.admission import Constraint
from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.limit import Limit
from onward.status import Status
from onward.testing.conformance.steps import claim, demand, enqueue, read

LIMITED = {"work": Constraint(Limit(concurrency=5))}
NONSENSE = ["'soon'", "x'00ff'", "5", "''", "'9999-99-99'"]
BREAKER = "INSERT INTO onward_breakers (key, status, retry_at, pause, pace, updated_at) VALUES ({key}, 'open', {at}, '1m', '1/s', '2026')"
LIMIT = "INSERT INTO onward_limits (kind, name, concurrency, check_at, updated_at) VALUES ({kind}, {name}, 1, {at}, '2026')"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())) as store:
        store.open()
        yield store


def by_hand(store: SQLiteStore, *statements: str) -> None:
    with closing(sqlite3.connect(store.path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def runs_all(store: SQLiteStore) -> bool:
    """Say whether jobs of every kind are claimed beside what is there, and swept."""
    jobs = [enqueue(store, **keys) for keys in ({}, {"breaker": "s3"}, {"concurrency_key": "s3"}, {"serial_key": "s3"})]
    claims = store.turn(demand=demand(10, constraints=LIMITED)).claims
    store.sweep(("work",), constraints=LIMITED)
    return {one.id for one in jobs} <= {one.id for one in claims}


@pytest.mark.parametrize("at", NONSENSE)
def test_moments_that_are_none_hold_nobody(store: SQLiteStore, at: str) -> None:
    by_hand(store, BREAKER.format(key="'other'", at=at), LIMIT.format(kind="'key'", name="'other'", at=at))
    assert runs_all(store)
    assert len(store.limits()) <= 2


def test_names_that_are_no_text_hold_nobody(store: SQLiteStore) -> None:
    name = "x'6d61696c'"
    by_hand(
        store,
        BREAKER.format(key=name, at="'2026-01-01T00:00:00.000000Z'"),
        *(LIMIT.format(kind=kind, name=name, at="NULL") for kind in ("'key'", "'queue'")),
    )
    store.set_limit("queue", "mail", Limit(concurrency=1))
    assert runs_all(store)
    assert [one.state.name for one in store.limits()] == ["mail", "s3"]
    assert store.breakers() == []


def test_a_breaker_of_no_status_is_closed_and_does_not_stand_in_front_of_the_others(store: SQLiteStore) -> None:
    """There are more of them than one claim looks at."""
    made = [
        "INSERT INTO onward_breakers (key, status, retry_at, pause, pace, updated_at) "
        f"VALUES ('bad{number}', 'open', '2000-01-01T00:00:00.000000Z', 'for long', 'slowly', '2026')"
        for number in range(120)
    ]
    by_hand(store, *made)
    assert runs_all(store)
    limit = {"work": Constraint(Limit(rate="1/s", burst=1))}
    for _ in range(3):
        enqueue(store, concurrency_key="paced")
    found = len(store.turn(demand=demand(10, constraints=limit)).claims)
    for _ in range(4):
        store.clock.advance(1)  # type: ignore[attr-defined]
        found += len(store.turn(demand=demand(10, constraints=limit)).claims)
    assert found == 3


@pytest.mark.parametrize("column", ["breaker", "concurrency_key", "serial_key"])
def test_a_job_whose_key_is_no_text_stops_only_itself(store: SQLiteStore, column: str) -> None:
    bad, neighbour = enqueue(store, **{column: "k"}), enqueue(store, **{column: "other"})
    by_hand(store, f"UPDATE onward_jobs SET {column} = x'00ff' WHERE id = '{bad.id}'")
    assert [one.id for one in claim(store, 10, constraints=LIMITED)] == [neighbour.id]
    assert runs_all(store)
    assert read(store, neighbour).status is Status.IN_PROGRESS
