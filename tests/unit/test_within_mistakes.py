"""``within=`` with an object of the right library that is no connection: the error says which one to give instead."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg2.extensions
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from onward.app import Onward
from onward.definition import define_job
from onward.drivers.borrowed import find_bridge
from onward.drivers.postgres.within import BRIDGES
from onward.errors import NoTransaction

MADE_FROM_IT = "which is no session or connection: give the session or connection made from it"
ITS_CONNECTION = "which is no session or connection: give its connection"
ENTER_IT = "enter it, and give what that gives, as in 'with app.transaction() as connection: ...'"

tidy = define_job("tidy", lambda: None)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda app: create_engine("sqlite://"), MADE_FROM_IT),
        (lambda app: create_async_engine("sqlite+aiosqlite://"), MADE_FROM_IT),
        (lambda app: sessionmaker(), MADE_FROM_IT),
        (lambda app: async_sessionmaker(), MADE_FROM_IT),
        (lambda app: sqlite3.connect(":memory:").cursor(), ITS_CONNECTION),
        (lambda app: app.transaction(), ENTER_IT),
        (lambda app: create_engine("sqlite://").begin(), ENTER_IT),
    ],
    ids=["engine", "async engine", "sessionmaker", "async_sessionmaker", "cursor", "transaction not entered", "begin not entered"],
)
def test_the_error_says_what_to_give_instead(tmp_path: Path, make: Callable[[Onward], Any], advice: str) -> None:
    """A list of libraries, with the right one in it, sends its reader away to look for another library."""
    with Onward(f"sqlite:///{tmp_path}/app.db", jobs=[tidy]) as app, pytest.raises(NoTransaction) as refused:
        app.enqueue(tidy, within=make(app))
    assert str(refused.value).endswith(advice)
    assert "it takes connections of" not in str(refused.value)


def made_bare(kind: type[Any]) -> Any:
    return kind.__new__(kind)


@pytest.mark.parametrize(
    ("kind", "advice"),
    [(asyncpg.Pool, MADE_FROM_IT), (psycopg.Cursor, ITS_CONNECTION), (psycopg.AsyncCursor, ITS_CONNECTION)],
)
def test_so_it_is_for_postgres(kind: type[Any], advice: str) -> None:
    """Pools and cursors are what these libraries put into their users' hands. No server is needed to look at a class."""
    with pytest.raises(NoTransaction) as refused:
        find_bridge(made_bare(kind), BRIDGES, "sync")
    assert str(refused.value).endswith(advice)


def test_a_pool_of_a_library_of_its_own_counts_as_one_of_its_connections() -> None:
    """``psycopg_pool`` is installed apart from ``psycopg``."""
    pool = type("ConnectionPool", (), {"__module__": "psycopg_pool.pool"})
    with pytest.raises(NoTransaction, match=MADE_FROM_IT):
        find_bridge(pool(), BRIDGES, "sync")


def test_what_is_of_no_known_library_is_told_the_libraries() -> None:
    """There the list is the answer."""
    with pytest.raises(NoTransaction, match=r"a builtins\.int, which this store cannot join: it takes connections of asyncpg"):
        find_bridge(5, BRIDGES, "sync")


def test_cursors_name_their_connection() -> None:
    """What the advice relies on, of each library that has cursors."""
    for kind in (sqlite3.Cursor, aiosqlite.Cursor, psycopg.Cursor, psycopg2.extensions.cursor):
        assert hasattr(kind, "connection")
