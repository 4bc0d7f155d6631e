"""``ctx.transaction()``: data, children and completion in one commit behind the fence."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from onward.clock import SystemClock
from onward.context import JobContext
from onward.definition import define_job
from onward.driver import JobFilter, Store
from onward.drivers import connect
from onward.errors import LeaseLost, OnwardError
from onward.retry import RetryPolicy
from onward.status import Status
from onward.worker.worker import Worker
from tests.worker.conftest import work_off

MakeWorker = Callable[..., Worker]
child = define_job("child", lambda payload: None, payload=int, queue="later")


class Shop:
    """A SQLite file with the jobs and a table of the application's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store: Store = connect(f"sqlite:///{path}", clock=SystemClock())
        self.store.open()
        with self.store.transaction() as connection:
            connection.execute("CREATE TABLE sales (number INTEGER)")

    def connection(self) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, isolation_level=None)
        made.execute("PRAGMA synchronous=FULL")
        return made

    def sales(self) -> int:
        connection = self.connection()
        try:
            (count,) = connection.execute("SELECT count(*) FROM sales").fetchone()
        finally:
            connection.close()
        return int(count)

    def children(self) -> int:
        return self.store.count(JobFilter(types=("child",)))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop.db")
    yield made
    made.store.close()


def run(shop: Shop, make_worker: MakeWorker, handler: Callable[[int, JobContext], Any], **rules: Any) -> Any:
    work = define_job("work", handler, **{"retry": RetryPolicy(max_attempts=1), **rules})
    job = work.new_job(1)
    shop.store.enqueue([job])
    work_off(make_worker(work, child, store=shop.store, queues=["default"]))
    return shop.store.get(job.id)


def sell(connection: Any) -> Any:
    return connection.execute("INSERT INTO sales VALUES (1)")


def test_writes_children_and_completion_are_one_commit(shop: Shop, make_worker: MakeWorker) -> None:
    """After a crash there is all of it or nothing, so the effect happens once."""
    statuses = []

    def handler(payload: int, ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            sell(connection)
            ctx.enqueue(child, 1)
        statuses.append(shop.store.get(ctx.job.id).status)

    job = run(shop, make_worker, handler)
    assert statuses == [Status.COMPLETED]
    assert (job.status, shop.sales(), shop.children()) == (Status.COMPLETED, 1, 1)


def test_an_error_inside_leaves_nothing(shop: Shop, make_worker: MakeWorker) -> None:
    """Neither data nor children of a try that failed."""

    def handler(payload: int, ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            sell(connection)
            ctx.enqueue(child, 1)
            raise ValueError("no")

    assert (run(shop, make_worker, handler).status, shop.sales(), shop.children()) == (Status.DEAD_LETTER, 0, 0)


def test_an_error_behind_the_commit_changes_nothing(shop: Shop, make_worker: MakeWorker) -> None:
    """The job is done; running it again would do it twice."""

    def handler(payload: int, ctx: JobContext) -> None:
        with ctx.transaction() as connection:
            sell(connection)
        raise ValueError("too late")

    assert (run(shop, make_worker, handler).status, shop.sales()) == (Status.COMPLETED, 1)


def test_a_lost_claim_writes_nothing(shop: Shop, make_worker: MakeWorker) -> None:
    """The fence is checked before the first statement of the handler."""
    raised = []

    def handler(payload: int, ctx: JobContext) -> None:
        assert ctx.job.lease_owner is not None
        shop.store.recover(ctx.job.lease_owner, [])
        try:
            with ctx.transaction() as connection:
                sell(connection)
        except LeaseLost as error:
            raised.append(error)
            raise

    work = define_job("work", handler)
    shop.store.enqueue([work.new_job(1)])
    worker = make_worker(work, store=shop.store, max_jobs=1)
    work_off(worker)
    assert len(raised) == 1
    assert shop.sales() == 0


def test_a_callers_connection_carries_the_completion(shop: Shop, make_worker: MakeWorker) -> None:
    """An application that has its own session keeps it."""

    def handler(payload: int, ctx: JobContext) -> None:
        connection = shop.connection()
        connection.execute("BEGIN IMMEDIATE")
        with ctx.transaction(connection):
            sell(connection)
            ctx.enqueue(child, 1)
        connection.execute("COMMIT")
        connection.close()

    assert (run(shop, make_worker, handler).status, shop.sales(), shop.children()) == (Status.COMPLETED, 1, 1)


def test_a_caller_that_rolls_back_and_returns_completes_without_its_writes(shop: Shop, make_worker: MakeWorker) -> None:
    """The handler decided; its completion is then stored in the ordinary way, with its children."""

    def handler(payload: int, ctx: JobContext) -> None:
        connection = shop.connection()
        connection.execute("BEGIN IMMEDIATE")
        with ctx.transaction(connection):
            sell(connection)
            ctx.enqueue(child, 1)
        connection.execute("ROLLBACK")
        connection.close()

    assert (run(shop, make_worker, handler).status, shop.sales(), shop.children()) == (Status.COMPLETED, 0, 1)


def test_a_transaction_that_is_tried_again_has_its_children_once(shop: Shop, make_worker: MakeWorker) -> None:
    """A caller repeats after a serialization failure."""

    def handler(payload: int, ctx: JobContext) -> None:
        connection = shop.connection()
        for end in ("ROLLBACK", "COMMIT"):
            connection.execute("BEGIN IMMEDIATE")
            with ctx.transaction(connection):
                sell(connection)
                ctx.enqueue(child, 1)
            connection.execute(end)
        connection.close()

    assert (run(shop, make_worker, handler).status, shop.sales(), shop.children()) == (Status.COMPLETED, 1, 1)


def test_an_awaited_connection_carries_the_completion(shop: Shop, make_worker: MakeWorker) -> None:
    """Async handlers have the same promise."""

    async def handler(payload: int, ctx: JobContext) -> None:
        async with aiosqlite.connect(shop.path, isolation_level=None) as connection:
            await connection.execute("PRAGMA synchronous=FULL")
            await connection.execute("BEGIN IMMEDIATE")
            async with ctx.transaction(connection):
                await sell(connection)
                ctx.enqueue(child, 1)
            await connection.execute("COMMIT")

    assert (run(shop, make_worker, handler).status, shop.sales(), shop.children()) == (Status.COMPLETED, 1, 1)


def test_children_behind_the_transaction_are_refused(shop: Shop, make_worker: MakeWorker) -> None:
    """They could not be stored any more, and must not be lost in silence."""
    raised = []

    def handler(payload: int, ctx: JobContext) -> None:
        with ctx.transaction():
            pass
        try:
            ctx.enqueue(child, 1)
        except OnwardError as error:
            raised.append(str(error))

    run(shop, make_worker, handler)
    assert "inside it" in raised[0]


def test_a_bare_transaction_in_an_async_handler_is_refused(shop: Shop, make_worker: MakeWorker) -> None:
    """It would hold the loop and the only write lock at once."""

    async def handler(payload: int, ctx: JobContext) -> None:
        with ctx.transaction():
            pass

    job = run(shop, make_worker, handler)
    assert job.status is Status.DEAD_LETTER
    assert "async connection" in (job.error or "")
