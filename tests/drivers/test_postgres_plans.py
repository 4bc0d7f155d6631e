"""How a claim is planned decides what it costs, and a plan outlives what the table was like when it was made."""

from __future__ import annotations

from datetime import timedelta

import psycopg

from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.url import read_url
from onward.outcome import Completed
from onward.testing.factories import make_new_job
from onward.turn import Demand, Settlement

DEMAND = Demand(lease_owner="worker:1:x", slots=4, types={"work": timedelta(seconds=60)})
UNTIL_PLANNED = 12
"""psycopg prepares a statement that is run for the sixth time, and Postgres plans it anew five times more at most."""


def test_plans_made_for_a_small_table_seek_in_a_large_one(store: PostgresStore, postgres_database: str) -> None:
    """They are kept until the next ANALYZE: a worker that has idled on an empty queue is then sent 100,000 jobs."""
    with psycopg.connect(read_url(postgres_database)[0], autocommit=True) as connection:
        connection.execute(f'ALTER TABLE "{store.schema}".jobs SET (autovacuum_enabled = false)')
        store.enqueue([make_new_job()])
        settle_what_is_due(store)
        connection.execute(f'VACUUM ANALYZE "{store.schema}".jobs')
    for _ in range(UNTIL_PLANNED):
        assert store.turn(demand=DEMAND).claims == ()
    for number in range(UNTIL_PLANNED):
        store.enqueue([make_new_job(key=f"k{number}"), make_new_job()])
        settle_what_is_due(store)
    plans = kept_plans(store)
    assert [verb for verb in ("WITH RECURSIVE clock", "status = 'completed'", "INSERT INTO") if not any(verb in sql for sql in plans)] == []
    assert [sql for sql, plan in plans.items() if "Seq Scan on jobs" in plan] == []


def settle_what_is_due(store: PostgresStore) -> None:
    store.turn([Settlement(claim=one, outcome=Completed()) for one in store.turn(demand=DEMAND).claims])


def kept_plans(store: PostgresStore) -> dict[str, str]:
    """The plans that are kept by the connection that the store uses, by their statement."""
    with store._database._connections.lend(10, first=lambda connection: connection) as (connection, _):
        cursor = psycopg.Cursor(connection)
        kept = cursor.execute(
            "SELECT name, statement, parameter_types::text[] FROM pg_prepared_statements WHERE generic_plans > 0"
        ).fetchall()
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        plans = {}
        for name, statement, kinds in kept:
            nothing = f"({', '.join(['NULL'] * len(kinds))})" if kinds else ""
            plans[statement] = "\n".join(row[0] for row in cursor.execute(f'EXPLAIN EXECUTE "{name}"{nothing}').fetchall())
        cursor.execute("RESET plan_cache_mode")
    return plans
