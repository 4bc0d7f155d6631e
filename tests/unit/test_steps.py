"""Steps that are awaited are taken to their end, also when whoever awaits them is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from onward.steps import drive_awaited


def transaction(done: list[str], *, swallows: bool = False) -> Generator[str, None, str]:
    """As an enqueue in a caller's transaction: what has failed is undone in two steps."""
    try:
        yield "insert"
    except BaseException:
        yield "undo"
        yield "release"
        if not swallows:
            raise
    done.append("end")
    return "result"


async def cancelled_again_and_again(task: asyncio.Task[str]) -> None:
    """As a cancel scope of anyio does it: at every await, until the task has ended."""
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)


@pytest.mark.parametrize("swallows", [False, True])
def test_a_cancelled_insert_is_undone_whole(swallows: bool) -> None:
    """Else the caller's transaction keeps half of it, and commits that."""
    taken: list[str] = []
    done: list[str] = []

    async def take(step: str) -> None:
        await asyncio.sleep(0.01)
        taken.append(step)

    async def story() -> None:
        task = asyncio.ensure_future(drive_awaited(take, transaction(done, swallows=swallows)))
        await asyncio.sleep(0)
        await cancelled_again_and_again(task)
        assert task.cancelled(), "whoever cancelled must see that it was"

    asyncio.run(story())
    assert taken == ["undo", "release"]


def test_what_cannot_be_undone_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead connection must not hold a program that is being ended."""
    monkeypatch.setattr("onward.steps.UNDO_WITHIN", 0.05)

    given_up: list[str] = []

    async def take(step: str) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            given_up.append(step)
            raise

    async def story() -> None:
        task = asyncio.ensure_future(drive_awaited(take, transaction([])))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert given_up[:2] == ["insert", "undo"], "what is left behind would go on with a connection that others use again"

    asyncio.run(asyncio.wait_for(story(), 10))


def test_an_undo_that_fails_is_told() -> None:
    """The transaction is of no use then, and its owner must know."""

    async def take(step: str) -> None:
        if step == "insert":
            await asyncio.sleep(3600)
        raise ConnectionError(step)

    async def story() -> None:
        task = asyncio.ensure_future(drive_awaited(take, transaction([])))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(ConnectionError, match="undo"):
            await task

    asyncio.run(story())
