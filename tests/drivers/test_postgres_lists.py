"""A list that a statement is given is read once, and rows are locked once, whatever the planner believes about the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onward.drivers.postgres
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.url import read_url
from onward.drivers.sql.statements import as_json, load_statements
from onward.testing.factories import make_new_job

FILE = Path(onward.drivers.postgres.__path__[0]) / "statements.sql"
STATEMENTS = load_statements(FILE.read_text(encoding="utf-8"))
LISTS = {"ids", "types", "statuses", "queues"}
ASKED = {name: set(re.findall(r"(?<!:):([a-z_]+)", sql.replace("{moment}", ":now"))) for name, sql in STATEMENTS.items()}
MANY = 200
NOW = "2026-01-01T00:00:00Z"
STATISTICS = {
    "none": ("SELECT", "SELECT"),
    "of an empty table": ("VACUUM ANALYZE {table}", "SELECT"),
    "of a table of another kind": (
        "SELECT",
        """UPDATE {table} SET status = 'completed', finished_at = now(); ANALYZE {table};
        UPDATE {table} SET status = 'queued', finished_at = NULL""",
    ),
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", [name for name in STATEMENTS if ASKED[name] & LISTS])
def test_a_list_is_read_once(store: PostgresStore, postgres_database: str, name: str, statistics: str) -> None:
    """Two hundred ids against two hundred rows are two hundred seeks, not two hundred readings of the list for each of them."""
    table = f'"{store.schema}".jobs'
    with psycopg.connect(read_url(postgres_database)[0], autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        before, after = (sql.format(table=table) for sql in STATISTICS[statistics])
        connection.execute(before)
        jobs = store.enqueue([make_new_job() for _ in range(MANY)])
        connection.execute(after)
        given: dict[str, object] = dict.fromkeys(ASKED[name], None)
        lists = {"ids": [job.id for job in jobs], "types": ["work"], "queues": ["default"], "statuses": ["queued"]}
        given |= {key: as_json(value) for key, value in lists.items() if key in given}
        given |= {
            key: value
            for key, value in {"now": NOW, "limit": MANY, "slots": MANY, "owner": "x", "key": "x", "fence": 1}.items()
            if key in given
        }
        if name == "claim":
            given["types"] = as_json({"work": 60.0})
        sql = StatementText(store.schema, notify=True)[name]
        with connection.transaction(force_rollback=True):
            (answer,) = connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql, given).fetchone() or ([],)
    read = [node["Actual Loops"] for node in nodes(answer[0]["Plan"]) if node["Node Type"] in ("ProjectSet", "LockRows")]
    assert read
    assert max(read) <= 1


@pytest.mark.parametrize("name", [name for name, sql in STATEMENTS.items() if "SKIP LOCKED" in sql])
def test_rows_are_locked_where_nothing_runs_them_again(name: str) -> None:
    """In a part that is MATERIALIZED, or in the statement itself: a subselect may be run once for each row of another, and lock anew."""
    sql = STATEMENTS[name]
    for found in re.finditer("SKIP LOCKED", sql):
        depth, around = 0, []
        for at in range(found.start(), -1, -1):
            depth += {")": 1, "(": -1}.get(sql[at], 0)
            if depth < 0:
                around.append(sql[:at].rstrip().endswith("AS MATERIALIZED"))
                depth = 0
        assert any(around) or not around
