"""Make the tables, Onward's and the application's own: ``python -m examples.podcasts.install``, before anything else is started."""

from __future__ import annotations

import asyncio

from sqlalchemy import inspect

from examples.podcasts.database import engine
from examples.podcasts.errors import UNUSABLE, first_line
from examples.podcasts.home import HOME, URL
from examples.podcasts.tables import Table
from onward import Onward


async def make_tables() -> None:
    """Make the application's tables, if they are not there."""
    async with engine.begin() as connection:
        await connection.run_sync(Table.metadata.create_all)
    await engine.dispose()


async def missing_tables() -> list[str]:
    """The application's tables that are not there."""
    async with engine.connect() as connection:
        there = await connection.run_sync(lambda one: inspect(one).get_table_names())
    await engine.dispose()
    return [name for name in Table.metadata.tables if name not in there]


def main() -> None:
    """Make them all. Raises ``SystemExit`` with one line where the database cannot be used."""
    HOME.mkdir(parents=True, exist_ok=True)
    try:
        with Onward(URL, migrate=True) as app:
            app.store.open()
            asyncio.run(make_tables())
    except UNUSABLE as error:
        raise SystemExit(first_line(error)) from None
    print(f"{app.store.url} is ready")


if __name__ == "__main__":
    main()
