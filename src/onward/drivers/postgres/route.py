"""What ``onward doctor`` says about the way to the server: whether a pooler stands in between, and whether notifications come through."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import Enum

import psycopg
from msgspec import Struct
from psycopg import conninfo, errors

from onward.drivers.postgres.connections import StoreConnection, complete
from onward.drivers.postgres.database import Database
from onward.drivers.postgres.deadlines import Deadlines
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.vendor_errors import text_of
from onward.drivers.sql.statements import Statement
from onward.inspection import Finding

PATIENCE = 2.0
"""Seconds after which a pooler that lends no connection counts as one that has none to lend."""
ROUNDS = 5
"""A pooler that others use at this moment may lend another of its connections each time."""
ARRIVES_WITHIN = 1.0
DIRECT = "set ONWARD_LISTEN_URL to the server itself"


class Mode(Enum):
    """What a pooler lends a connection of its own for."""

    SESSION = "a session"
    TRANSACTION = "a transaction"
    TRANSACTION_WITHOUT_NAMES = "a transaction, and forgets prepared statements"


class Way(Struct, frozen=True):
    """How the store's own connections reach the server."""

    url: str
    is_direct: bool
    prepares: bool


def pooler(database: Database, text: StatementText) -> Iterator[Finding]:
    """A pooler that lends connections for a transaction breaks what belongs to a session."""
    way = _way(database, text)
    if way.is_direct:
        yield Finding("pooler", "ok", "none is in between")
        return
    match _mode(way, text):
        case Mode.SESSION:
            yield Finding("pooler", "ok", "one is in between; as far as can be seen, it lends a connection for a whole session")
        case Mode.TRANSACTION:
            yield Finding("pooler", "ok", f"one is in between that lends a connection for a transaction: to be notified, {DIRECT}")
        case Mode.TRANSACTION_WITHOUT_NAMES:
            text_ = (
                "one is in between that lends a connection for a transaction and forgets prepared statements, so statements fail now and "
                "then: add prepare=off to the URL, or use PgBouncer 1.21 or newer with max_prepared_statements"
            )
            yield Finding("pooler", "error", text_)


def _way(database: Database, text: StatementText) -> Way:
    """A pooler tells its clients a process number of its own invention."""

    def look(connection: StoreConnection, now: datetime) -> Way:
        told = connection.info
        url = conninfo.make_conninfo(**{**told.get_parameters(), "password": told.password})
        ((pid,),) = connection.run(text, Statement("examine_backend"))
        return Way(url, pid == told.backend_pid, connection.prepare_threshold is not None)

    return database.transact(look)


def _mode(way: Way, text: StatementText) -> Mode:
    """Find out by what one session meets in a transaction while another one is idle.

    If it gets the connection to the server that the other had been using, connections are lent for a transaction. Both prepare a statement,
    by the same name, as sessions do that know nothing of each other.
    """
    try:
        with _session(way.url) as first, _session(way.url) as second:
            for _ in range(ROUNDS):
                used = _backend(first, text, way.prepares)
                with second.transaction():
                    if _backend(second, text, way.prepares) == used:
                        return Mode.TRANSACTION
    except (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement):
        return Mode.TRANSACTION_WITHOUT_NAMES
    except psycopg.OperationalError:  # there was no second connection to lend
        return Mode.SESSION
    return Mode.SESSION


def _backend(session: StoreConnection, text: StatementText, prepare: bool) -> int:
    ((pid,),) = psycopg.Cursor(session).execute(text["examine_backend"], prepare=prepare).fetchall()
    return int(pid)


@contextmanager
def _session(url: str) -> Iterator[StoreConnection]:
    with StoreConnection.connect(complete(url, "onward doctor"), autocommit=True) as session:
        session.deadlines, session.patience = Deadlines(), PATIENCE
        yield session


def notifications(database: Database, text: StatementText, listen_url: str | None, *, is_standby: bool) -> Iterator[Finding]:
    """Send one over the store's connection, and see whether it arrives where workers listen."""
    if is_standby:
        yield Finding("notifications", "warning", "a standby has none")
    elif listen_url is None:
        yield Finding("notifications", "ok", "off: workers poll, and begin a job up to a poll later")
    else:
        try:
            reason = _try_one(database, text, listen_url)
        except (psycopg.Error, OSError) as error:
            reason = f"nothing can be listened to ({text_of(error)}): correct ONWARD_LISTEN_URL"
        if reason is None:
            yield Finding("notifications", "ok", "one that was sent arrived")
        else:
            yield Finding("notifications", "warning", f"workers poll, and begin a job up to a poll later, since {reason}")


def _try_one(database: Database, text: StatementText, listen_url: str) -> str | None:
    """None if it arrives, else why it does not, and what to do."""
    said = os.urandom(8).hex()
    with _session(listen_url) as listener:
        cursor = psycopg.Cursor(listener)
        cursor.execute(text["examine_listen"])
        database.alone(Statement("notify", {"channel": "onward_doctor", "payload": said}))
        if said in {one.payload for one in listener.notifies(timeout=ARRIVES_WITHIN, stop_after=1)}:
            return None
        there = cursor.execute(text["examine_place"]).fetchall()
        cursor.execute(text["examine_unlisten"])
    _, here = database.ask(text.raw["examine_place"])
    if tuple(here) != tuple(there):
        return f"ONWARD_LISTEN_URL leads to {there[0][0]} and the store is {here[0][0]}: give it the same database"
    return f"one that was sent did not arrive; a pooler that lends connections for a transaction keeps them: {DIRECT}, or use notify=off"
