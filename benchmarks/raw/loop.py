"""The worker that both yardsticks share: completes one batch and claims the next in one transaction, while handlers run on the loop."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any


async def serve(
    step: Callable[[list[int], int], Awaitable[list[Any]]],
    wait: Callable[[], Awaitable[object]],
    handler: Callable[[Any], Awaitable[object]],
    batch: int,
) -> None:
    """Work for ever. ``step`` completes and claims, ``wait`` returns when there may be more to do."""
    ready: deque[Any] = deque()
    ended: list[int] = []
    running, is_dry, woken = 0, False, asyncio.Event()

    async def run(number: int, payload: str) -> None:
        nonlocal running
        async with asyncio.timeout(60):
            await handler(json.loads(payload))
        ended.append(number)
        running -= 1
        woken.set()

    def start() -> None:
        nonlocal running
        while ready and running < batch:
            running += 1
            asyncio.create_task(run(*ready.popleft()))  # noqa: RUF006 - the loop's queue holds it, and it ends by itself

    async def until(turn: asyncio.Future[list[Any]]) -> list[Any]:
        turn.add_done_callback(lambda _: woken.set())
        while not turn.done():
            start()
            await woken.wait()
            woken.clear()
        return turn.result()

    while True:
        start()
        if ended or (len(ready) < batch and not is_dry):
            completed, ended, wanted = ended, [], batch if len(ready) < batch else 0
            ready.extend(claimed := await until(asyncio.ensure_future(step(completed, wanted))))
            is_dry = wanted > 0 and not claimed
        elif running:
            await woken.wait()
            woken.clear()
        else:
            await wait()
            is_dry = False
