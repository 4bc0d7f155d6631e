"""A page of attempts is a walk along the index of when they ended, on either database and whatever it believes about its tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onward.attempts import AttemptFilter
from onward.clock import FakeClock
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.url import read_url
from onward.drivers.sql.attempts import attempts
from onward.drivers.sql.statements import run
from onward.drivers.sqlite.driver import SQLiteStore

BEGIN = {"at": "9999-12-31T00:00:00.000000Z", "job_id": "", "fence": 0}
END = {"end_at": "0001-01-01T00:00:00.000000Z", "end_job_id": "", "end_fence": 0}
FILTER = {"types": '["mail"]', "queues": None, "outcomes": '["lost"]', "lease_owner": None, "limit": 51, "looks": 2_000}
MANY = 30_000

SEED_SQLITE = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many)
INSERT INTO onward_jobs (id, type, queue, priority, status, payload, payload_hash, scheduled_at, max_attempts, created_at, updated_at)
SELECT printf('%026d', i), 'work', 'default', 0, 'queued', 'null', 'x', :at, 3, :at, :at FROM n;
"""
SEED_HISTORY = """
INSERT INTO onward_history (job_id, fence, attempt, outcome, finished_at)
SELECT id, 1, 1, 'retried', printf('2025-01-01T%02d:%02d:%02d.000000Z', rowid / 3600, rowid / 60 % 60, rowid % 60) FROM onward_jobs
"""


def test_sqlite_walks_the_index_from_place_to_place(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    store.open()
    with closing(sqlite3.connect(store.path)) as connection:
        both = "(finished_at,job_id,fence)>(?,?,?) AND (finished_at,job_id,fence)<(?,?,?)"
        for name, more, between in (("attempts", FILTER, both), ("attempts_end", {"skipped": 999}, "(finished_at,job_id,fence)<(?,?,?)")):
            sql = "EXPLAIN QUERY PLAN " + store.statements[name]
            plan = [row[3] for row in connection.execute(sql, BEGIN | END | more)]
            assert f"INDEX onward_history_finished ({between})" in plan[0]
            assert not any("SCAN onward_" in step or "TEMP B-TREE" in step for step in plan), plan
    store.close()


def test_a_look_on_sqlite_costs_no_more_than_its_bound(tmp_path: Path) -> None:
    """Thirty thousand attempts, none of which matches: every step of SQLite's machine is counted, not the time."""
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    store.open()
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(SEED_SQLITE, {"many": MANY, "at": "2025-01-01T00:00:00.000000Z"})
        connection.execute(SEED_HISTORY)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(store.path)) as connection:
        connection.set_progress_handler(count, 100)

        def cost(looks: int) -> int:
            before = steps
            page = run(connection.cursor(), store.statements, attempts(AttemptFilter(types=("mail",)), 50, None, looks))
            assert (page.found, page.is_capped) == ((), looks < MANY)
            return steps - before

        small, large, all_of_them = cost(100), cost(1_000), cost(MANY)
    assert 0 < small < large / 5
    assert large < all_of_them / 10
    store.close()


@pytest.mark.parametrize("statistics", ["none", "of an empty table", "of a full one"])
def test_postgres_walks_the_index_from_place_to_place(store: PostgresStore, postgres_database: str, statistics: str) -> None:
    """Also by a plan that is kept for any parameters."""
    schema, text = store.schema, StatementText(store.schema, notify=True)
    with psycopg.connect(read_url(postgres_database)[0], autocommit=True) as connection:
        cursor = connection.cursor()
        for table in ("jobs", "history"):
            cursor.execute(f'ALTER TABLE "{schema}".{table} SET (autovacuum_enabled = false)')
            if statistics == "of an empty table":
                cursor.execute(f'VACUUM ANALYZE "{schema}".{table}')
        cursor.execute(
            f"""INSERT INTO "{schema}".jobs (id, type, queue, priority, status, payload, payload_hash, scheduled_at, max_attempts,
                created_at, updated_at, metadata, owner)
            SELECT lpad(i::text, 26, '0'), 'work', 'default', 0, 'queued', 'null', 'x', now(), 3, now(), now(), '{{}}', ''
            FROM generate_series(1, {MANY}) AS i"""
        )
        cursor.execute(
            f"""INSERT INTO "{schema}".history (job_id, fence, attempt, outcome, finished_at)
            SELECT lpad(i::text, 26, '0'), 1, 1, 'retried', timestamptz '2025-01-01 00:00Z' + i * interval '1 second'
            FROM generate_series(1, {MANY}) AS i"""
        )
        if statistics == "of a full one":
            cursor.execute(f'VACUUM ANALYZE "{schema}".jobs, "{schema}".history')
        for mode in ("force_custom_plan", "force_generic_plan"):
            cursor.execute(f"SET plan_cache_mode = {mode}")
            for name, more in (("attempts", FILTER), ("attempts_end", {"skipped": 999})):
                sql = "EXPLAIN (ANALYZE, FORMAT JSON) " + text[name]
                (answer,) = cursor.execute(sql, BEGIN | END | more, prepare=True).fetchone() or ([],)
                steps = list(nodes(answer[0]["Plan"]))
                (walk,) = [step for step in steps if step.get("Relation Name") == "history"]
                assert (walk.get("Index Name"), walk.get("Scan Direction")) == ("history_finished", "Backward"), walk
                assert walk["Index Cond"].startswith("(ROW(finished_at, job_id, fence) < "), walk
                assert walk["Actual Rows"] <= 2_000
                assert not any(step["Node Type"] in ("Sort", "Hash", "Seq Scan") for step in steps), steps


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)
