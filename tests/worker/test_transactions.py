"""``ctx.transaction()``: data, children and completion in one commit behind the fence."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from onward.clock import SystemClock
from onward.context import JobContext
from onward.definition import define_job
from onward.driver import Store
from onward.drivers import connect
from onward.errors import LeaseLost, OnwardError
from onward.events import Event
from onward.inspection import JobFilter
from onward.outcome import Cancel, Release, Snooze
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
        self._opened: list[sqlite3.Connection] = []
        self.store: Store = connect(f"sqlite:///{path}", clock=SystemClock())
        self.store.open()
        with self.store.transaction() as connection:
            connection.execute("CREATE TABLE sales (number INTEGER)")

    def connection(self) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA synchronous=FULL")
        self._opened.append(made)
        return made

    def close(self) -> None:
        for connection in self._opened:
            connection.close()
        self.store.close()

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
    made.close()


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


def sell_in_its_own(ctx: JobContext, shop: Shop) -> None:
    with ctx.transaction() as connection:
        sell(connection)


def sell_in_the_callers(ctx: JobContext, shop: Shop) -> None:
    connection = shop.connection()
    connection.execute("BEGIN IMMEDIATE")
    try:
        with ctx.transaction(connection):
            sell(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()


WAYS = [sell_in_its_own, sell_in_the_callers]


@pytest.mark.parametrize("sells", WAYS)
def test_an_error_behind_the_commit_changes_nothing_and_is_told(
    shop: Shop, make_worker: MakeWorker, events: list[Event], caplog: pytest.LogCaptureFixture, sells: Callable[[JobContext, Shop], None]
) -> None:
    """The job is done, and running it again would do it twice; but somebody must hear of it."""

    def handler(payload: int, ctx: JobContext) -> None:
        sells(ctx, shop)
        raise ValueError("too late")

    assert (run(shop, make_worker, handler).status, shop.sales()) == (Status.COMPLETED, 1)
    assert [event.event for event in events] == ["claimed", "completed"]
    assert "ValueError: too late" in (events[-1].error or "")
    assert any(record.levelno == logging.ERROR and "ValueError: too late" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_a_second_transaction_is_refused(
    shop: Shop,
    make_worker: MakeWorker,
    events: list[Event],
    first: Callable[[JobContext, Shop], None],
    second: Callable[[JobContext, Shop], None],
) -> None:
    """The first one has completed the job, so the second could prove nothing; its writes must not be lost in silence."""

    def handler(payload: int, ctx: JobContext) -> None:
        first(ctx, shop)
        second(ctx, shop)

    assert (run(shop, make_worker, handler).status, shop.sales()) == (Status.COMPLETED, 1)
    assert "completed already by its first transaction" in (events[-1].error or "")


def test_a_second_transaction_on_an_awaited_connection_is_refused(shop: Shop, make_worker: MakeWorker, events: list[Event]) -> None:
    """Both colours have the same rule."""

    async def handler(payload: int, ctx: JobContext) -> None:
        async with aiosqlite.connect(shop.path, isolation_level=None) as connection:
            await connection.execute("PRAGMA synchronous=FULL")
            for _ in range(2):
                await connection.execute("BEGIN IMMEDIATE")
                async with ctx.transaction(connection):
                    await sell(connection)
                await connection.execute("COMMIT")

    assert (run(shop, make_worker, handler).status, shop.sales()) == (Status.COMPLETED, 1)
    assert "completed already by its first transaction" in (events[-1].error or "")


def test_a_result_that_cannot_be_stored_loses_nothing(shop: Shop, make_worker: MakeWorker, events: list[Event]) -> None:
    """What is returned behind the transaction comes too late for the store; it must not look like a lost claim."""

    def handler(payload: int, ctx: JobContext) -> object:
        sell_in_its_own(ctx, shop)
        return object()

    assert (run(shop, make_worker, handler).status, shop.sales()) == (Status.COMPLETED, 1)
    assert [event.event for event in events] == ["claimed", "completed"]


def test_a_second_use_of_the_same_open_transaction_is_refused(shop: Shop, make_worker: MakeWorker, events: list[Event]) -> None:
    """The caller rolls back, so nothing is completed: this is an ordinary failed try."""

    def handler(payload: int, ctx: JobContext) -> None:
        connection = shop.connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for _ in range(2):
                with ctx.transaction(connection):
                    sell(connection)
        finally:
            connection.close()

    assert (run(shop, make_worker, handler).status, shop.sales()) == (Status.DEAD_LETTER, 0)
    assert "completed already by its first transaction" in (events[-1].error or "")


@pytest.mark.parametrize("in_transaction", [False, True])
def test_children_are_reported_once_they_are_stored(shop: Shop, make_worker: MakeWorker, events: list[Event], in_transaction: bool) -> None:
    """Who counts what was queued must hear of every job, and of none that another one with its key stands for."""
    shop.store.enqueue([child.new_job(0, key="taken")])

    def handler(payload: int, ctx: JobContext) -> None:
        def ask() -> None:
            ctx.enqueue(child, 1)
            ctx.enqueue(child, 2, key="free")
            ctx.enqueue(child, 3, key="taken")

        if in_transaction:
            with ctx.transaction():
                ask()
        else:
            ask()

    job = run(shop, make_worker, handler)
    assert [event.event for event in events] == ["claimed", "completed", "queued", "queued"]
    for event in events[2:]:
        assert (event.job_type, event.queue, event.correlation_id, event.committed) == ("child", "later", job.id, True)
        assert shop.store.get(event.job_id).payload in ("1", "2")


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


@pytest.mark.parametrize("ends", ["rolls back", "leaves open"])
def test_a_handler_that_does_not_commit_has_failed(shop: Shop, make_worker: MakeWorker, ends: str) -> None:
    """Its writes and children are gone, so a job that ended as completed would have lost them without a word."""
    opened = []

    def handler(payload: int, ctx: JobContext) -> None:
        connection = shop.connection()
        opened.append(connection)
        connection.execute("BEGIN IMMEDIATE")
        with ctx.transaction(connection):
            sell(connection)
            ctx.enqueue(child, 1)
        if ends == "rolls back":
            connection.execute("ROLLBACK")
        else:
            threading.Timer(0.1, connection.close).start()

    job = run(shop, make_worker, handler)
    assert (job.status, shop.sales(), shop.children()) == (Status.DEAD_LETTER, 0, 0)
    assert "was not committed" in (job.error or "")


def test_an_async_handler_that_does_not_commit_has_failed(shop: Shop, make_worker: MakeWorker) -> None:
    """The store is asked elsewhere than on the event loop, which others use."""
    asked_in = []

    async def handler(payload: int, ctx: JobContext) -> None:
        async with aiosqlite.connect(shop.path, isolation_level=None) as connection:
            await connection.execute("BEGIN IMMEDIATE")
            async with ctx.transaction(connection):
                await connection.execute("INSERT INTO sales VALUES (1)")
            await connection.execute("ROLLBACK")
        loop_thread = threading.get_ident()
        get = shop.store.get

        def watched(*given: Any, **options: Any) -> Any:
            asked_in.append(threading.get_ident() == loop_thread)
            return get(*given, **options)

        shop.store.get = watched  # type: ignore[method-assign]

    job = run(shop, make_worker, handler)
    assert (job.status, shop.sales()) == (Status.DEAD_LETTER, 0)
    assert "was not committed" in (job.error or "")
    assert asked_in == [False, False]  # the other one is this test's


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


@pytest.mark.parametrize(
    ("returned", "name"), [({"a": 1}, "a result"), (Snooze("5m"), "Snooze"), (Cancel("no"), "Cancel"), (Release(), "Release")]
)
def test_what_a_handler_returns_behind_its_transaction_is_ignored_and_told(
    shop: Shop, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture, returned: object, name: str
) -> None:
    """The job is completed already, so nothing of it can be stored; in silence it would be looked for."""

    def handler(payload: int, ctx: JobContext) -> object:
        with ctx.transaction() as connection:
            sell(connection)
        return returned

    job = run(shop, make_worker, handler)
    assert (job.status, job.result) == (Status.COMPLETED, None)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 1
    assert told[0].endswith(f"was completed by its ctx.transaction(), so what its handler returned is ignored: {name}")


def test_a_handler_that_returns_nothing_behind_its_transaction_is_not_told_of(
    shop: Shop, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    """That is how it should be written."""
    assert run(shop, make_worker, sell_alone).status is Status.COMPLETED
    assert caplog.records == []


def sell_alone(payload: int, ctx: JobContext) -> None:
    with ctx.transaction() as connection:
        sell(connection)


def test_an_async_handler_is_told_which_transaction_it_can_use(shop: Shop, make_worker: MakeWorker) -> None:
    """``async with`` on a bare one would end in a TypeError that names neither the cause nor the way."""

    async def handler(payload: int, ctx: JobContext) -> None:
        async with ctx.transaction() as connection:
            sell(connection)

    job = run(shop, make_worker, handler)
    assert job.status is Status.DEAD_LETTER
    assert (job.error or "").startswith("OnwardError: ")
    assert "async with ctx.transaction(connection)" in (job.error or "")
