"""A caller's transaction that is committed or rolled back between the proof of the lease and the completion: two effects, not one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from onward.app import Onward
from onward.context import JobContext
from onward.definition import define_job
from onward.driver import Store
from onward.errors import LeaseLost, TransactionOpen
from onward.jobs import Job
from onward.outcome import Completed
from onward.retry import RetryPolicy
from onward.status import Status
from onward.testing.factories import make_new_job
from onward.turn import Settlement
from tests.drivers.borrowed.callers import Caller
from tests.drivers.borrowed.conftest import Database
from tests.drivers.borrowed.test_together import SELL, claim, sales


@pytest.mark.parametrize("then", ["begins another", "is in none"])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_run_is_completed_in_the_transaction_of_its_proof_alone(store: Store, caller: Caller, end: str, then: str) -> None:
    """Its lease was proved in that one, whose writes may be stored without the completion."""
    store.enqueue([make_new_job()])
    (claimed,) = claim(store)
    caller.begin()
    within = caller.within(store)
    caller.call(within.confirm(claimed))
    caller.run(SELL)
    getattr(caller, end)()
    if then == "begins another":
        caller.begin()
        caller.run(SELL)
    with pytest.raises(TransactionOpen, match=r"committed or rolled back inside the block of ctx\.transaction\(\)"):
        caller.call(within.settle(Settlement(claim=claimed, outcome=Completed())))
    if then == "begins another":
        caller.rollback()
    assert store.get(claimed.id).status is Status.IN_PROGRESS
    assert sales(store) == (1 if end == "commit" else 0)


def test_a_transaction_that_goes_on_completes_its_run(store: Store, caller: Caller) -> None:
    """Savepoints of the caller's, and jobs in between, end nothing; what held on behind the proof is gone with the completion."""
    store.enqueue([make_new_job(), make_new_job()])
    for number, claimed in enumerate(claim(store), 1):
        caller.begin()
        within = caller.within(store)
        caller.call(within.confirm(claimed))
        caller.run(SELL)
        caller.savepoint()
        caller.run(SELL)
        caller.undo_savepoint()
        caller.call(within.enqueue([make_new_job("later")]))
        caller.call(within.settle(Settlement(claim=claimed, outcome=Completed())))
        caller.run(SELL)
        caller.commit()
        assert store.get(claimed.id).status is Status.COMPLETED
        assert sales(store) == 2 * number


def test_a_proof_counts_for_one_completion(store: Store, caller: Caller) -> None:
    """Behind it, a repeated completion is what it always was, and a lease that is lost is told as that."""
    store.enqueue([make_new_job()])
    (claimed,) = claim(store)
    caller.begin()
    within = caller.within(store)
    caller.call(within.confirm(claimed))
    caller.call(within.settle(Settlement(claim=claimed, outcome=Completed())))
    caller.commit()
    caller.begin()
    caller.call(within.settle(Settlement(claim=claimed, outcome=Completed())))
    with pytest.raises(LeaseLost):
        caller.call(within.confirm(claimed))
    caller.rollback()


# -- in a worker ---------------------------------------------------------------------------------------------------------


def work(database: Database, handler: Callable[[int, JobContext], None]) -> Job:
    """Run one job; gives it as it is then."""
    job = define_job("sell", handler, payload=int, retry=RetryPolicy(max_attempts=1))
    app = Onward(store=database.store, jobs=[job])
    handle = app.enqueue(job, 1)
    app.worker(drain=True).run()
    return app.get(handle.id)


def connection_to(database: Database) -> Any:
    if isinstance(database.place, str):
        return sqlite3.connect(database.place)
    return psycopg.connect(**database.place)  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["sqlite", "postgres_here"])
def test_a_handler_that_commits_in_the_block_is_told(where: str, request: pytest.FixtureRequest) -> None:
    """The first time that it runs, and not when a process dies between its two commits."""
    database: Database = request.getfixturevalue(where)

    def handler(payload: int, ctx: JobContext) -> None:
        connection = connection_to(database)
        try:
            with ctx.transaction(connection):
                connection.execute(SELL)
                connection.commit()
        finally:
            connection.close()

    found = work(database, handler)
    assert found.status is Status.DEAD_LETTER
    assert "commit behind the block" in (found.error or "")


@pytest.mark.parametrize("where", ["sqlite", "postgres_here"])
def test_a_handler_that_ends_the_stores_own_transaction_is_told(where: str, request: pytest.FixtureRequest) -> None:
    """The same on the connection that a bare ``ctx.transaction()`` gives."""
    database: Database = request.getfixturevalue(where)

    def handler(payload: int, ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            connection.execute(SELL)
            if isinstance(connection, sqlite3.Connection):
                for statement in ("COMMIT", "BEGIN IMMEDIATE"):
                    sqlite3.Cursor(connection).execute(statement)
            else:
                connection.pgconn.exec_(b"COMMIT; BEGIN")
            connection.execute(SELL)

    found = work(database, handler)
    assert found.status is Status.DEAD_LETTER
    assert "inside the block" in (found.error or "")
    assert sales(database.store) == 1
