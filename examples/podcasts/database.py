"""The engine, and the sessions that come from it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from examples.podcasts.home import URL, sqlalchemy_url


def make_engine(url: str) -> AsyncEngine:
    """An engine on the database that ``EXAMPLE_PODCASTS_URL`` names."""
    if not url.startswith("sqlite"):
        return create_async_engine(sqlalchemy_url(url))
    made = create_async_engine(sqlalchemy_url(url), connect_args={"timeout": 10})
    event.listen(made.sync_engine, "connect", _set_up)
    event.listen(made.sync_engine, "begin", _begin)
    return made


def _set_up(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself: _begin does
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = FULL")  # a commit here accepts jobs, and an accepted job survives a power cut
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A transaction that reads first and takes the write lock later is refused with SQLITE_BUSY_SNAPSHOT when another writer came in
    # between, and no waiting helps it. One that will write takes the lock at its beginning; one that only reads needs none.
    only_reads = connection.get_execution_options().get("only_reads", False)
    connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")


engine = make_engine(URL)
writing: async_sessionmaker[AsyncSession] = async_sessionmaker(engine, expire_on_commit=False)
"""Sessions for a change: ``async with writing.begin() as session: …``."""
reading: async_sessionmaker[AsyncSession] = async_sessionmaker(engine.execution_options(only_reads=True), expire_on_commit=False)
"""Sessions that only look, and on SQLite keep nobody from writing."""
