"""What a claim and a sweep cost on SQLite must not depend on how many jobs wait for others."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward.admission import Constraint
from onward.clock import FakeClock
from onward.drivers.sql.recheck import Cursors, recheck
from onward.drivers.sql.statements import Operation, run
from onward.drivers.sql.turn import turn
from onward.drivers.sqlite.claim import claim
from onward.drivers.sqlite.driver import SQLiteStore
from onward.limit import Limit
from onward.testing.factories import make_new_job
from onward.turn import Demand

MANY = int(os.environ.get("ONWARD_TEST_BLOCKED", "20000"))
"""Rows that wait, for each reason."""
DEMAND = Demand(
    lease_owner="host:1:one",
    slots=10,
    types={"work": timedelta(seconds=60)},
    queues=("default",),
    constraints={"work": Constraint(Limit(concurrency=10))},
)
SEED = """
INSERT INTO onward_jobs (id, type, queue, priority, status, payload, payload_hash, scheduled_at, max_attempts, created_at, updated_at,
    blocked_by, breaker, concurrency_key, serial_key)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many)
SELECT printf('%s%021d', :label, i), 'work', 'default', 100, 'queued', 'null', 'x', '2025-06-01T00:00:00.000000Z', 3,
    '2025-01-01T00:00:00.000000Z', '2025-01-01T00:00:00.000000Z', :reason, 'b' || (i % :keys), 'c' || (i % :keys), 's' || (i % :keys)
FROM n
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    store.open()
    yield store
    store.close()


def seed(store: SQLiteStore, *, keys: int) -> None:
    """Jobs that wait for a breaker, a limit or another job, all in front of those that are due."""
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for label, reason in (("00000", "breaker"), ("00001", "limit"), ("00002", "serial")):
            connection.execute(SEED, {"label": label, "reason": reason, "many": MANY, "keys": keys})
        connection.commit()


def steps_of(store: SQLiteStore, make: Callable[[], Operation[Any]]) -> tuple[int, Any]:
    """Count every step of SQLite's virtual machine, and undo what was done."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.set_progress_handler(count, 1)
        done = run(connection.cursor(), store.statements, make())
        connection.set_progress_handler(None, 1)
        connection.execute("ROLLBACK")
    return steps, done


def steps_of_a_claim(store: SQLiteStore) -> int:
    """Of five jobs."""
    steps, done = steps_of(store, lambda: turn((), DEMAND, store.clock.now(), claim))
    assert len(done.claims) == 5
    return steps


@pytest.mark.parametrize(
    "fields",
    [{}, {"serial_key": "own"}, {"concurrency_key": "own"}, {"breaker": "own"}],
    ids=["that share nothing", "of a serial key", "under a limit", "of a breaker"],
)
def test_a_claim_walks_past_nothing_that_waits_for_others(store: SQLiteStore, fields: dict[str, str]) -> None:
    """At most 1.2 times the steps that it takes where nothing waits."""
    own = [{name: f"{key} {number}" for name, key in fields.items()} for number in range(5)]
    store.enqueue([make_new_job(**one) for one in own])
    alone = steps_of_a_claim(store)
    seed(store, keys=100)
    beside = steps_of_a_claim(store)
    print(f"steps of a claim of 5 jobs: {alone} alone, {beside} beside 3 x {MANY} that wait")
    assert beside <= 1.2 * alone


def test_a_sweep_looks_at_some_keys_however_many_wait(store: SQLiteStore) -> None:
    """A portion of the keys each time, and one row of each."""
    seed(store, keys=MANY // 2)
    steps, _ = steps_of(store, lambda: recheck(Cursors(), store.clock.now()))
    print(f"steps of a sweep's look at 3 x {MANY} that wait: {steps}")
    assert steps < 200_000
