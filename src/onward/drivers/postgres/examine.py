"""What ``onward doctor`` says about a Postgres store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
from psycopg.rows import dict_row

from onward.clock import Clock, SystemClock
from onward.drivers.postgres.connections import StoreConnection
from onward.drivers.postgres.database import LOOK_WITHIN, Database
from onward.drivers.postgres.drift import drift
from onward.drivers.postgres.route import notifications, pooler
from onward.drivers.postgres.schema import Schema
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.upkeep import Ask, Row, dead_rows, index_sizes, notification_queue, old_transactions, table_sizes, vacuum
from onward.drivers.postgres.vendor_errors import is_connection_lost
from onward.drivers.sql.rows import read_instant
from onward.drivers.sql.statements import Statement, as_json
from onward.errors import OnwardError
from onward.inspection import Finding

OLDEST_RELEASE = 14
SHORTEST_TIMEOUT = 1000
"""Milliseconds. A statement of Onward's takes a few, and much longer where a disk is slow or a row is held for a moment."""
MOST_OFF = 2.0
"""Seconds that the clocks of this host and the database may differ."""
NEARLY_ALL = 0.8
TIMEOUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout")


def examine(database: Database, schema: Schema, text: StatementText, listen_url: str | None) -> list[Finding]:
    """Look at everything that could weaken a promise. ``listen_url`` is None where notifications are off.

    Raises ``StoreUnavailable`` when the database cannot be reached, and ``SchemaOutOfDate`` when it has no tables of Onward.
    """
    ask = asking(database, text)
    (server,) = ask(Statement("examine_server"))
    version = schema.open()
    is_standby = server["is_standby"]
    looks: dict[str, Callable[[], Iterator[Finding]]] = {
        "server version": lambda: release(server),
        "database": lambda: identity(server),
        "settings": lambda: settings(ask),
        "search path": lambda: search_path(database, text, ask),
        "connections": lambda: connections(ask),
        "schema": lambda: drift(database, text, schema.name, version),
        "rights": lambda: rights(ask, schema.name, server["role"]),
        "unlogged tables": lambda: unlogged_tables(ask, schema.name),
        "pooler": lambda: pooler(database, text),
        "notifications": lambda: notifications(database, text, None if is_standby else listen_url, is_standby=is_standby),
        "queue of notifications": lambda: notification_queue(ask),
        "vacuum": lambda: vacuum(ask, schema.name),
        "old transactions": lambda: old_transactions(ask, sees_everybody=server["sees_everybody"]),
        "dead rows": lambda: dead_rows(ask, schema.name),
        "table size": lambda: table_sizes(ask, schema.name),
        "indexes": lambda: index_sizes(ask, schema.name),
        "clock": lambda: clock(database, text),
        "blocked types": lambda: blocked_types(ask),
        "jobs": lambda: census(ask),
    }
    return [finding for name, look in looks.items() for finding in _looked(name, look)]


def asking(database: Database, text: StatementText) -> Ask:
    """What each look asks the database with."""

    def work(connection: StoreConnection, wanted: Statement) -> list[Row]:
        connection.run(text, Statement("examine_plainly"))
        return psycopg.Cursor(connection, row_factory=dict_row).execute(text[wanted.name], wanted.parameters or None).fetchall()

    return lambda wanted: database.transact(lambda connection, now: work(connection, wanted), lock_timeout=LOOK_WITHIN)


def _looked(name: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """One thing that this role may not look at must not hide the others."""
    try:
        return list(look())
    except OnwardError as error:
        if error.__cause__ is not None and is_connection_lost(error.__cause__):
            raise
        return [Finding(name, "warning", f"could not be looked at: {error}")]


# -- the server --------------------------------------------------------------------------------------------------------


def release(server: Row) -> Iterator[Finding]:
    """Whether the statements can be run there."""
    if server["number"] < OLDEST_RELEASE * 10_000:
        text = f"Postgres {server['version']}: Onward needs {OLDEST_RELEASE} or newer; upgrade the server"
        yield Finding("server version", "error", text)
    else:
        yield Finding("server version", "ok", f"Postgres {server['version']}")


def identity(server: Row) -> Iterator[Finding]:
    """Which database it really is, whatever name, pooler or proxy led there."""
    where = "a socket" if server["host"] is None else f"{server['host']}:{server['port']}"
    place = f"{server['database']} (oid {server['oid']}) at {where}, as {server['role']}"
    if server["is_standby"]:
        yield Finding("database", "error", f"{place}: this is a standby, which takes no writes; give the URL of the primary")
    else:
        yield Finding("database", "ok", place)
    if server["encoding"] == "UTF8":
        yield Finding("encoding", "ok", "UTF8")
    else:
        yield Finding(
            "encoding",
            "warning",
            f"{server['encoding']}: a payload with a character that it lacks is refused; use a database with the encoding UTF8",
        )


def settings(ask: Ask) -> Iterator[Finding]:
    """The settings that weaken a promise, as a connection of this role has them."""
    found = {row["name"]: row["setting"] for row in ask(Statement("examine_settings"))}
    for name in ("fsync", "full_page_writes"):
        if found[name] == "on":
            yield Finding(name, "ok", "on")
        else:
            yield Finding(name, "error", f"off: a power cut may lose or damage everything; set {name} = on in postgresql.conf")
    yield _synchronous_commit(found["synchronous_commit"], bool(found["synchronous_standby_names"]))
    if found["default_transaction_read_only"] == "on":
        yield Finding(
            "read only",
            "error",
            "default_transaction_read_only is on, so nothing can be enqueued or run: RESET it with ALTER ROLE or ALTER DATABASE",
        )
    if (level := found["default_transaction_isolation"]) != "read committed":
        text = (
            f"the role's default is {level}: claims, which are single statements, run at it and now and then have to be tried again; "
            "ALTER ROLE … SET default_transaction_isolation = 'read committed'"
        )
        yield Finding("isolation", "warning", text)
    short = [f"{name} = {found[name]} ms" for name in TIMEOUTS if 0 < int(found.get(name, 0)) < SHORTEST_TIMEOUT]
    if short:
        text = f"{', '.join(short)}: work of Onward's would be cut off by this now and then; give its role at least {SHORTEST_TIMEOUT} ms"
        yield Finding("timeouts", "warning", text)
    else:
        yield Finding("timeouts", "ok", f"none is shorter than {SHORTEST_TIMEOUT} ms")


def _synchronous_commit(level: str, has_standbys: bool) -> Finding:
    advice = "RESET it with ALTER ROLE or ALTER DATABASE, or set it to on"
    if level == "off":
        return Finding("synchronous_commit", "error", f"off: a crash of the server may lose accepted jobs; {advice}")
    if level in ("local", "remote_write") and has_standbys:
        text = f"{level}: accepted jobs may be lost when a synchronous standby takes over; {advice}"
        return Finding("synchronous_commit", "warning", text)
    return Finding("synchronous_commit", "ok", f"{level}: an accepted job survives a crash of the server")


def search_path(database: Database, text: StatementText, ask: Ask) -> Iterator[Finding]:
    """Functions and types are named with their schema in every statement; operators are found by the path."""
    _, ((path,),) = database.ask(text.raw["examine_path"])
    before = path[: path.index("pg_catalog")]
    found = [row["schema"] for row in ask(Statement("examine_operators", {"schemas": as_json(before)}))]
    if found:
        yield Finding(
            "search path",
            "error",
            f"{', '.join(found)} comes before pg_catalog and has operators of the same names, so statements would use those: "
            "put pg_catalog first, with ALTER ROLE or ALTER DATABASE … SET search_path",
        )
    else:
        yield Finding("search path", "ok", "every operator is that of Postgres")


def connections(ask: Ask) -> Iterator[Finding]:
    """How near the server is to refusing one more."""
    (found,) = ask(Statement("examine_connections"))
    text = f"{found['used']:,} of {found['allowed']:,} are in use"
    if found["used"] > NEARLY_ALL * found["allowed"]:
        yield Finding("connections", "warning", f"{text}: soon there are none; use a pooler, fewer processes, or raise max_connections")
    else:
        yield Finding("connections", "ok", text)


def clock(database: Database, text: StatementText, host: Clock | None = None) -> Iterator[Finding]:
    """The database decides what is due. A host that differs only shows wrong ages."""
    host = host or SystemClock()
    before = host.now()
    _, ((told,),) = database.ask(text.raw["clock"])
    after = host.now()
    off = (read_instant(told) - (before + (after - before) / 2)).total_seconds()
    uncertain = (after - before).total_seconds() / 2
    if abs(off) - uncertain > MOST_OFF:
        which = "ahead of" if off > 0 else "behind"
        text_ = f"the database is {abs(off):,.1f} s {which} this host: jobs follow the database, but logs and ages differ; set the clocks"
        yield Finding("clock", "warning", text_)
    else:
        yield Finding("clock", "ok", f"within {max(abs(off), uncertain):.3f} s of the database's")


# -- the tables --------------------------------------------------------------------------------------------------------


def rights(ask: Ask, schema: str, role: str) -> Iterator[Finding]:
    """What this role needs to enqueue and to work."""
    is_held_back = False
    for table in ask(Statement("examine_tables")):
        if table["lacking"]:
            is_held_back = True
            needed = ", ".join(table["lacking"])
            text = f'this role may neither enqueue nor work: GRANT {needed} ON "{schema}".{table["name"]} TO "{role}"'
            yield Finding("rights", "error", text)
        if table["hides_rows"]:
            is_held_back = True
            name = f'"{schema}".{table["name"]}'
            text = f"rows of {name} are hidden from this role: ALTER TABLE {name} DISABLE ROW LEVEL SECURITY, or give the role BYPASSRLS"
            yield Finding("row security", "error", text)
    if not is_held_back:
        yield Finding("rights", "ok", f"{role} may read and write every table")


def unlogged_tables(ask: Ask, schema: str) -> Iterator[Finding]:
    """Tables that are not written ahead to disk, as some make them for speed."""
    for table in ask(Statement("examine_tables")):
        if table["is_unlogged"]:
            name = f'"{schema}".{table["name"]}'
            yield Finding("unlogged tables", "error", f"a crash of the server empties {name}: ALTER TABLE {name} SET LOGGED")


def blocked_types(ask: Ask) -> Iterator[Finding]:
    """Types that a worker met and did not know, and that none has served since."""
    found = ask(Statement("examine_blocked"))
    if found:
        types = ", ".join(f"{row['type']} ({row['jobs']:,})" for row in found)
        yield Finding("blocked types", "warning", f"due jobs wait for a worker that knows their type: {types}; start one, or cancel them")
    else:
        yield Finding("blocked types", "ok", "no job waits because no worker knows its type")


def census(ask: Ask) -> Iterator[Finding]:
    """How many jobs there are, and whether anybody has enqueued lately."""
    rows = ask(Statement("census"))
    if not rows:
        yield Finding("jobs", "ok", "none")
        return
    newest = max((row["newest"] for row in rows if row["newest"] is not None), default="no instant that can be read")
    counts = ", ".join(f"{row['jobs']:,} {row['status']}" for row in sorted(rows, key=lambda row: str(row["status"])))
    yield Finding("jobs", "ok", f"{counts}; the newest was enqueued at {newest}")
