"""Who settles or renews some of the jobs that run reads those, however many others run, and though the statistics say that none does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.url import read_url
from onward.drivers.sql.statements import as_json
from onward.testing.factories import make_new_job
from onward.turn import Claim, Demand

WAITING, RUNNING, ASKED = 10_000, 400, 20
NOW = "2026-01-01T00:00:00Z"
ARMS = {"renew": 3}
"""How many parts of the statement look for the rows; each of the others has one."""


def parameters(claims: tuple[Claim, ...]) -> dict[str, dict[str, Any]]:
    ids = [claim.id for claim in claims]
    rows = [{"id": id_, "fence": 1, "lease_until": NOW, "status": "queued", "attempts": 1} for id_ in ids]
    ending = {"lost_leases": 0, "releases": 0, "snoozes": 0, "isolated": 0}
    return {
        "asked_to_cancel": {"ids": as_json(ids)},
        "settle": {"rows": as_json([row | ending for row in rows]), "now": NOW},
        "complete_without_result": {"ids": as_json(ids), "fence": 1, "now": NOW},
        "complete": {"rows": as_json([[id_, 1, None] for id_ in ids]), "now": NOW},
        "renew": {"rows": as_json(rows), "now": NOW},
        "begin_isolated": {"rows": as_json(rows), "now": NOW},
        "confirm": {"id": ids[0], "fence": 1, "now": NOW},
        "lose": {"rows": as_json(rows), "now": NOW},
    }


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


@pytest.mark.parametrize(
    "name", ["asked_to_cancel", "settle", "complete_without_result", "complete", "renew", "begin_isolated", "confirm", "lose"]
)
def test_only_the_rows_asked_for_are_read(store: PostgresStore, postgres_database: str, name: str) -> None:
    demand = Demand(lease_owner="worker:1:x", slots=RUNNING, types={"work": timedelta(seconds=60)})
    with psycopg.connect(read_url(postgres_database)[0], autocommit=True) as connection:
        connection.execute(f'ALTER TABLE "{store.schema}".jobs SET (autovacuum_enabled = false)')
        store.enqueue([make_new_job() for _ in range(WAITING)])
        connection.execute(f'ANALYZE "{store.schema}".jobs')
        claims = store.turn(demand=demand).claims
        assert len(claims) == RUNNING
        sql = StatementText(store.schema, notify=True)[name]
        with connection.transaction(force_rollback=True):
            asked = parameters(claims[:ASKED])[name]
            (answer,) = connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql, asked).fetchone() or ([],)
    scans = [node for node in nodes(answer[0]["Plan"]) if node.get("Relation Name") == "jobs" and "Scan" in node["Node Type"]]
    assert scans
    read = [(node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in scans]
    assert sum(read) <= ASKED * ARMS.get(name, 1)
