"""Looks up how a connection that belongs to the caller is used, whichever library it is from.

A backend gives a table: the full name of a connection's class → how to use it. Nothing is imported to look a connection up, so no
library is loaded that the application has not loaded itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from onward.errors import NoTransaction, TransactionOpen
from onward.spelling import with_article

Colour = Literal["sync", "async"]

_DATABASES = {
    **dict.fromkeys(("sqlite3", "aiosqlite"), "SQLite"),
    **dict.fromkeys(("psycopg", "psycopg_pool", "psycopg2", "asyncpg"), "Postgres"),
}
"""Which database the connections of a library lead to."""


class Coloured(Protocol):
    """What a table has for a class of connections."""

    @property
    def colour(self) -> Colour: ...


C = TypeVar("C", bound=Coloured)


class Bridge(Struct, frozen=True):
    """How connections of one class are used."""

    colour: Colour
    join: Callable[..., Any]
    """Makes a ``Within`` or an ``AsyncWithin`` of the connection."""


def find_bridge(connection: Any, bridges: Mapping[str, C], colour: Colour) -> C:
    """Say how to use this connection. Raises ``NoTransaction`` when it cannot carry a job."""
    for kind in type(connection).__mro__:
        bridge = bridges.get(f"{kind.__module__}.{kind.__qualname__}")
        if bridge is None:
            continue
        if bridge.colour != colour:
            raise NoTransaction(_wrong_colour(connection, bridge.colour))
        return bridge
    raise NoTransaction(_cannot_join(connection, bridges))


def commits_by_itself(advice: str) -> NoTransaction:
    """Make the error for a connection in autocommit that is in no transaction."""
    return NoTransaction(
        f"the connection given as within= commits every statement by itself, so the job could not join a transaction: {advice}"
    )


def leads_elsewhere(theirs: str, ours: str) -> NoTransaction:
    """Make the error for a connection to tables of Onward's that are another store's."""
    return NoTransaction(
        f"the connection given as within= leads to {theirs}, which has tables of Onward as well, and the jobs of this store are in {ours}: "
        "no transaction spans both; give a connection to the database of the jobs, or enqueue without within= after the commit"
    )


def ended_inside() -> TransactionOpen:
    """Make the error for a run whose transaction was committed or rolled back before the block of ``ctx.transaction()`` was left."""
    return TransactionOpen(
        "the transaction was committed or rolled back inside the block of ctx.transaction(), so the job's completion cannot be part of it: "
        "what was written before that may be stored, and the job is not completed; commit behind the block"
    )


def _wrong_colour(connection: Any, colour: str) -> str:
    if colour == "async":
        return (
            f"within= was given {_name(connection)}, whose calls are awaited: use the async verb, "
            "such as await app.aenqueue(...) or async with ctx.transaction(...)"
        )
    return (
        f"within= was given {_name(connection)}, which is synchronous: use the sync verb, "
        "such as app.enqueue(...) or with ctx.transaction(...)"
    )


def _cannot_join(connection: Any, bridges: Mapping[str, Any]) -> str:
    theirs = {_DATABASES[library] for library in _libraries_of(connection) if library in _DATABASES}
    ours = {_DATABASES[library] for library in map(_library, bridges) if library in _DATABASES}
    if theirs and ours and theirs.isdisjoint(ours):
        return (
            f"within= was given {_name(connection)}, a connection to {theirs.pop()}, and the jobs of this store are in {ours.pop()}: "
            "no transaction spans both; keep the jobs in the database of the data, or enqueue without within= after the commit"
        )
    if instead := _instead(connection, {_library(name) for name in bridges}, bool(theirs & ours)):
        return f"within= was given {_name(connection)}, which is no session or connection: {instead}"
    known = ", ".join(sorted(set(map(_library, bridges))))
    return f"within= was given {_name(connection)}, which this store cannot join: it takes connections of {known}"


def _instead(given: Any, known: set[str], leads_here: bool) -> str | None:
    """What to give in place of an object of the right library: a factory, a cursor, or a block that is not entered."""
    kind = type(given)
    if kind.__module__ == "contextlib":
        return "enter it, and give what that gives, as in 'with app.transaction() as connection: ...'"
    if not leads_here and _library(kind.__module__) not in known:
        return None
    return "give its connection" if hasattr(kind, "connection") else "give the session or connection made from it"


def _libraries_of(connection: Any) -> list[str]:
    return [_library(kind.__module__) for kind in type(connection).__mro__]


def _library(name: str) -> str:
    return name.partition(".")[0]


def _name(connection: Any) -> str:
    return with_article(f"{type(connection).__module__}.{type(connection).__qualname__}")
