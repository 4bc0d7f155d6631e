"""``ctx.transaction()``: the handler's writes, the children and the completion in one commit behind the fence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any

from onward.context import COMPLETED_ALREADY, JobContext
from onward.driver import Store
from onward.errors import LeaseLost, OnwardError
from onward.jobs import Job
from onward.outcome import Completed
from onward.registry import Registry
from onward.status import Status
from onward.turn import Claim, Settlement
from onward.worker.settlement import settlement_of

LIMIT = timedelta(seconds=5)
"""How long a handler may hold the store's own write transaction."""


class StoreTransactions:
    """Implements ``onward.context.Transactions`` over a store."""

    def __init__(self, store: Store, definitions: Registry) -> None:
        self._store = store
        self._definitions = definitions

    def begin(self, context: JobContext) -> AbstractContextManager[Any]:
        """A transaction of the store's own. It may last ``LIMIT`` on every store, so that a handler behaves the same on each.

        Raises ``OnwardError`` at once in an async handler, also where ``async with`` follows.
        """
        _refuse_running_loop()
        return self._begin(context)

    @contextmanager
    def _begin(self, context: JobContext) -> Iterator[Any]:
        with context.collecting_children(), self._store.transaction(limit=LIMIT) as connection, self._ending(context, connection):
            yield connection
        context.completed_in_transaction = True

    def join(self, context: JobContext, connection: Any) -> Joining:
        return Joining(self, context, connection)

    @contextmanager
    def joined(self, context: JobContext, connection: Any) -> Iterator[Any]:
        """Inside the caller's transaction, on a connection whose calls return."""
        with context.collecting_children(), self._ending(context, connection):
            yield connection

    @asynccontextmanager
    async def joined_async(self, context: JobContext, connection: Any) -> AsyncIterator[Any]:
        """``joined`` on a connection whose calls are awaited."""
        with context.collecting_children():
            within, claim = self._store.within_async(connection), self._claim(context)
            try:
                await within.confirm(claim)
            except LeaseLost:
                if context.may_be_completed:
                    _refuse_second(context, await within.get(claim.id))
                raise
            yield connection
            await within.settle(self._completion(claim, context))
            context.may_be_completed = True

    def has_completed(self, context: JobContext) -> bool:
        """False also when the store cannot say: then the settlement finds out, behind the fence."""
        try:
            return _is_completed(context, self._store.get(context.job.id))
        except OnwardError:
            return False

    @contextmanager
    def _ending(self, context: JobContext, connection: Any) -> Iterator[None]:
        within, claim = self._store.within(connection), self._claim(context)
        try:
            within.confirm(claim)
        except LeaseLost:
            if context.may_be_completed:
                _refuse_second(context, within.get(claim.id))
            raise
        yield
        within.settle(self._completion(claim, context))
        context.may_be_completed = True

    def _claim(self, context: JobContext) -> Claim:
        context.check_lease()
        return Claim(context.job, self._definitions[context.job.type].lease)

    def _completion(self, claim: Claim, context: JobContext) -> Settlement:
        context.check_lease()
        return settlement_of(claim, self._definitions[claim.job.type], context, Completed())


class Joining:
    """One use of a caller's connection: ``with`` where its calls return, ``async with`` where they are awaited.

    Which of them is right is not guessed from the connection: the store knows, and says so to who took the other.
    """

    def __init__(self, transactions: StoreTransactions, context: JobContext, connection: Any) -> None:
        self._transactions = transactions
        self._context = context
        self._connection = connection

    def __enter__(self) -> Any:
        self._manager = self._transactions.joined(self._context, self._connection)
        return self._manager.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        return self._manager.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Any:
        self._async_manager = self._transactions.joined_async(self._context, self._connection)
        return await self._async_manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._async_manager.__aexit__(kind, error, traceback)


def _is_completed(context: JobContext, job: Job) -> bool:
    return job.status is Status.COMPLETED and job.fence == context.job.fence


def _refuse_second(context: JobContext, job: Job) -> None:
    if _is_completed(context, job):
        raise OnwardError(COMPLETED_ALREADY)


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise OnwardError(
        "a bare ctx.transaction() would block the event loop: write 'async with ctx.transaction(connection)' "
        "with the async connection that the handler uses"
    )
