"""What is asked of a store past the library: a caller's connection, and the rows by which a run is judged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import msgspec
import psycopg
from msgspec import Struct

from onward import OutcomeUnknown
from onward.errors import StoreUnavailable


class Borrowed(Struct):
    """A connection in a transaction of the caller's own."""

    connection: Any

    def commit(self, job_id: str) -> None:
        """Commit. Raises ``OutcomeUnknown`` when the database does not answer whether it did."""
        try:
            self.connection.commit()
        except (sqlite3.Error, psycopg.Error) as error:
            raise OutcomeUnknown(f"the caller's own commit failed: {error}", job_ids=(job_id,)) from error


@contextmanager
def borrowed_connection(url: str) -> Iterator[Borrowed]:
    """Open a connection to the store's database with a write transaction. Raises ``StoreUnavailable`` for an error before the commit."""
    try:
        connection = _open(url)
        try:
            yield Borrowed(connection)
        finally:
            connection.close()
    except (sqlite3.Error, psycopg.Error) as error:
        raise StoreUnavailable(f"the caller's own transaction failed: {error}") from error


def _open(url: str) -> Any:
    if not url.startswith("sqlite"):
        return psycopg.connect(url, connect_timeout=5)
    connection = sqlite3.connect(path_of(url), timeout=2, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    return connection


def path_of(url: str) -> str:
    """The file of a SQLite store."""
    return url.removeprefix("sqlite:///").partition("?")[0]


class JobRow(Struct, frozen=True, kw_only=True):
    """A stored job, as far as it is judged."""

    id: str
    type: str
    status: str
    fence: int = 0
    attempts: int = 0
    max_attempts: int = 1
    priority: int = 0
    key: str | None = None
    parent: str | None = None
    moment: datetime | None = None
    """Of a job that the clock enqueued."""
    concurrency_key: str | None = None
    serial_key: str | None = None
    breaker: str | None = None

    @property
    def waits_for_others(self) -> bool:
        return self.concurrency_key is not None or self.serial_key is not None or self.breaker is not None


class AuditRow(Struct, frozen=True, kw_only=True):
    """One change of a job, as a trigger of the store saw it. Instants are seconds since 1970."""

    job_id: str
    before: str = ""
    """Empty for the insert."""
    after: str
    fence_before: int = 0
    fence: int = 0
    attempts_before: int = 0
    attempts: int = 0
    given_back: int = 0
    """How many releases, snoozes and losses were counted with it."""
    ran_isolated: int = 0
    owner: str | None = None
    """Who held the claim that ended, or holds the one that was made."""
    lease_until: float | None = None
    """Of the claim that ended."""
    due: float | None = None
    """When the job was due before the change."""
    began: float | None = None
    """The store's instant of the claim that was made: what counted as due, and what was there to be seen."""
    ran_out: int = 0
    """1 when a sweep took the claim because its lease had run out."""
    at: float = 0.0
    number: int = 0
    """In the order of all changes of the store, those of breakers included."""


class BreakerRow(Struct, frozen=True, kw_only=True):
    """One change of a breaker."""

    key: str
    before: str = ""
    """Empty for the insert."""
    after: str
    probe: tuple[str | None, int | None] = (None, None)
    """The job that is tried, and its fence."""
    at: float = 0.0
    number: int = 0


class ActionRow(Struct, frozen=True, kw_only=True):
    """The record of what somebody did to many jobs, or to a queue."""

    id: str
    verb: str
    done: int = 0


class Rows(Struct, frozen=True, kw_only=True):
    """All that a store holds when a run is over."""

    jobs: tuple[JobRow, ...] = ()
    audit: tuple[AuditRow, ...] = ()
    """In the order in which each job changed."""
    breakers: tuple[BreakerRow, ...] = ()
    attempts: tuple[tuple[str, int, str], ...] = ()
    """Job, fence and outcome of each row of the history."""
    keys: tuple[tuple[str, str], ...] = ()
    """Key and holder."""
    effects: tuple[tuple[str, int], ...] = ()
    """Job and fence of each row that a handler wrote in its transaction."""
    orders: tuple[str, ...] = ()
    """The jobs that senders enqueued with a row of their own."""
    actions: tuple[ActionRow, ...] = ()
    paused: tuple[str, ...] = ()
    """Queues."""
    damage: tuple[str, ...] = ()
    """What the database says is wrong with itself."""
    files: tuple[str, ...] = ()
    """Where the files on disk are not what jobs promised."""
    leaks: tuple[str, ...] = ()
    """Where a secret was found."""


AUDIT_COLUMNS = (
    "job_id, before, after, fence_before, fence, attempts_before, attempts, given_back, ran_isolated, owner, lease_until, due, began, "
    "ran_out, at, number"
)
BREAKER = "breaker:"
"""Stands before the key of a breaker in the audit."""
JOB_COLUMNS = "id, type, status, fence, attempts, max_attempts, priority, idempotency_key, metadata, concurrency_key, serial_key, breaker"


def read_rows(url: str) -> Rows:
    """Read everything, in one transaction."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(url), timeout=10, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            damage = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
            damage += [f"foreign key: {row}" for row in connection.execute("PRAGMA foreign_key_check")]
            return _read(connection, "onward_", damage)
    with psycopg.connect(url, connect_timeout=5) as connection:
        return _read(connection, "onward.", _damage(connection))


def has_amcheck(connection: psycopg.Connection[Any]) -> bool:
    """Say whether the server can look at its own indexes and tables."""
    return connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'").fetchone() is not None


def _damage(connection: psycopg.Connection[Any]) -> list[str]:
    """What amcheck says of each index and table; counts stand in for it where the server has none."""
    if not has_amcheck(connection):
        return _unreadable_indexes(connection)
    connection.execute("CREATE EXTENSION IF NOT EXISTS amcheck")
    relations = connection.execute(
        "SELECT class.oid::regclass::text, amname FROM pg_class AS class JOIN pg_am ON pg_am.oid = relam "
        "WHERE relnamespace IN ('onward'::regnamespace, 'public'::regnamespace) AND amname IN ('btree', 'heap')"
    ).fetchall()
    found: list[str] = []
    for name, kind in relations:
        question = "SELECT bt_index_check(%s::regclass, true)" if kind == "btree" else "SELECT msg FROM verify_heapam(%s::regclass)"
        try:
            with connection.transaction():
                found += [f"{name}: {row[0]}" for row in connection.execute(question, [name]).fetchall() if row[0]]
        except psycopg.Error as error:
            found.append(f"{name}: {error}")
    return found


def _unreadable_indexes(connection: psycopg.Connection[Any]) -> list[str]:
    """Count each table by its indexes and past them: a cheap stand-in where the server has no amcheck."""
    found = []
    for name in ("jobs", "keys", "history"):
        counts = []
        for scan in ("seqscan", "indexscan"):
            other = "indexscan" if scan == "seqscan" else "seqscan"
            for setting in (f"SET LOCAL enable_{scan} = on", f"SET LOCAL enable_{other} = off", "SET LOCAL enable_bitmapscan = off"):
                connection.execute(setting.encode())
            counts.append(connection.execute(f"SELECT count(*) FROM onward.{name}".encode()).fetchone())
        if counts[0] != counts[1]:
            found.append(f"{name} has {counts[0]} rows, and {counts[1]} by its index")
    return found


def _read(connection: Any, prefix: str, damage: list[str]) -> Rows:
    def rows(sql: str) -> list[tuple[Any, ...]]:
        return list(connection.execute(sql).fetchall())

    audit_fields = [name.strip() for name in AUDIT_COLUMNS.split(",")]
    return Rows(
        jobs=tuple(_job(row) for row in rows(f"SELECT {JOB_COLUMNS} FROM {prefix}jobs ORDER BY id")),
        audit=tuple(
            AuditRow(**dict(zip(audit_fields, row, strict=True)))
            for row in rows(f"SELECT {AUDIT_COLUMNS} FROM audit WHERE job_id NOT LIKE '{BREAKER}%' ORDER BY number")
        ),
        breakers=tuple(
            BreakerRow(key=key.removeprefix(BREAKER), before=before, after=after, probe=(probe, fence), at=at, number=number)
            for key, before, after, probe, fence, at, number in rows(
                f"SELECT job_id, before, after, owner, fence, at, number FROM audit WHERE job_id LIKE '{BREAKER}%' ORDER BY number"
            )
        ),
        attempts=tuple((str(a), int(b), str(c)) for a, b, c in rows(f"SELECT job_id, fence, outcome FROM {prefix}history")),
        keys=tuple((str(a), str(b)) for a, b in rows(f"SELECT key, job_id FROM {prefix}keys")),
        effects=tuple((str(a), int(b)) for a, b in rows("SELECT job_id, fence FROM effects")),
        orders=tuple(str(row[0]) for row in rows("SELECT job_id FROM orders")),
        actions=tuple(ActionRow(id=id_, verb=verb, done=done) for id_, verb, done in rows(f"SELECT id, verb, done FROM {prefix}actions")),
        paused=tuple(str(row[0]) for row in rows(f"SELECT name FROM {prefix}queues")),
        damage=tuple(damage),
    )


def _job(row: tuple[Any, ...]) -> JobRow:
    id_, type_, status, fence, attempts, most, priority, key, metadata, concurrency_key, serial_key, breaker = row
    said = msgspec.json.decode(metadata)
    moment = datetime.fromisoformat(said["moment"]) if "moment" in said else None
    counts = {"fence": fence, "attempts": attempts, "max_attempts": most, "priority": priority}
    shared = {"concurrency_key": concurrency_key, "serial_key": serial_key, "breaker": breaker}
    return JobRow(id=id_, type=type_, status=status, key=key, parent=said.get("parent_id"), moment=moment, **counts, **shared)
