"""An awaited enqueue that is cancelled wherever it waits: the caller's transaction goes on, and has all of it or nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.inspection import JobFilter
from onward.testing.factories import make_new_job

WAITS = ("execute", "fetchall", "executemany")


@pytest.mark.parametrize("many", [1, 20], ids=["one key", "keys taken together"])
@pytest.mark.parametrize("wait", WAITS)
def test_all_or_nothing_is_left_wherever_it_was_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: str, many: int) -> None:
    """Rows that nobody reads any more would hold up the undo; half of it would be keys that no job ever gives back.

    All of it is there where the last step was cut short, which only lets go of a savepoint.
    """
    store = SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())
    store.open()
    real = getattr(aiosqlite.Cursor, wait)
    left = 0

    async def cut_short(cursor: aiosqlite.Cursor, *rest: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise asyncio.CancelledError
        return await real(cursor, *rest)

    monkeypatch.setattr(aiosqlite.Cursor, wait, cut_short)

    async def story(place: int) -> bool:
        """Cut it short where it waits for the so many-th time, and commit. False when it was over before that."""
        nonlocal left
        async with aiosqlite.connect(tmp_path / "jobs.db", isolation_level=None) as connection:
            await connection.execute("BEGIN")
            left = place
            try:
                await store.within_async(connection).enqueue([make_new_job(key=f"{place} {number}") for number in range(many)])
            except asyncio.CancelledError:
                left = 0
                await store.within_async(connection).enqueue([make_new_job(type="after")])
                await connection.commit()
                return True
        return False

    place = 0
    while asyncio.run(story(place := place + 1)):
        stored = store.count(JobFilter(types=("work",)))
        assert stored in (0, many)
        again = store.enqueue([make_new_job(key=f"{place} {number}") for number in range(many)])
        assert [one.is_new for one in again] == [stored == 0] * many, "a key without its job"
        for one in again:
            store.delete(one.id)
    assert store.count(JobFilter(types=("after",))) == place - 1 > 0
    store.close()
