"""Make the tables, Onward's and the application's own: ``python -m examples.podcasts.install``, before anything else is started."""

from __future__ import annotations

import asyncio

from examples.podcasts.database import engine
from examples.podcasts.home import HOME, URL
from examples.podcasts.tables import Table
from onward import Onward


async def make_tables() -> None:
    """Make the application's tables, if they are not there."""
    async with engine.begin() as connection:
        await connection.run_sync(Table.metadata.create_all)
    await engine.dispose()


if __name__ == "__main__":
    HOME.mkdir(parents=True, exist_ok=True)
    with Onward(URL, migrate=True) as app:
        app.store.open()
        asyncio.run(make_tables())
        print(f"{app.store.url} is ready")
