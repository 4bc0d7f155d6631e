"""``ctx.transaction()``: the handler's writes, the children and the completion in one commit behind the fence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

from onward.context import JobContext
from onward.definition import Registry
from onward.driver import Claim, Settlement, Store
from onward.errors import OnwardError
from onward.outcome import Completed

LIMIT = timedelta(seconds=5)
"""How long a handler may hold the store's own write transaction."""


class StoreTransactions:
    """Implements ``onward.context.Transactions`` over a store."""

    def __init__(self, store: Store, definitions: Registry) -> None:
        self._store = store
        self._definitions = definitions

    @contextmanager
    def begin(self, context: JobContext) -> Iterator[Any]:
        _refuse_running_loop()
        with context.collecting_children(), self._store.transaction(limit=LIMIT) as connection:
            within = self._store.within(connection)
            within.confirm(self._claim(context))
            yield connection
            within.settle(self._completion(context))
        context.completed_in_transaction = True

    @contextmanager
    def join(self, context: JobContext, connection: Any) -> Iterator[Any]:
        with context.collecting_children():
            within = self._store.within(connection)
            within.confirm(self._claim(context))
            yield connection
            within.settle(self._completion(context))

    @asynccontextmanager
    async def join_async(self, context: JobContext, connection: Any) -> AsyncIterator[Any]:
        with context.collecting_children():
            within = self._store.within_async(connection)
            await within.confirm(self._claim(context))
            yield connection
            await within.settle(self._completion(context))

    def _claim(self, context: JobContext) -> Claim:
        context.check_lease()
        return Claim(context.job, self._definitions[context.job.type].lease)

    def _completion(self, context: JobContext) -> Settlement:
        return Settlement(
            claim=self._claim(context),
            outcome=Completed(),
            children=tuple(context.children),
            progress=context.reported,
            processed=context.processed,
            failed=context.failed,
            keeps_history=self._definitions[context.job.type].keeps_history,
        )


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise OnwardError("a bare ctx.transaction() would block the event loop: pass the async connection that the handler uses")
