"""What is peculiar to migrating Postgres: rights, other people's things in the schema, and locks that nobody is to wait for."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from onward.drivers.postgres.migrate import migrate, migration_sql, migrations, newest, version
from onward.errors import SchemaOutOfDate
from onward.inspection import JobFilter
from onward.status import Status
from tests.drivers.tables import PostgresTables

LONGEST_WAIT = 1.0
"""Seconds that a statement of a worker may wait for a migration."""
NEXT = newest() + 1
ADDING = {
    **migrations(),
    NEXT: "ALTER TABLE {prefix}jobs ADD COLUMN region text;\n"
    "CREATE INDEX jobs_of_a_region ON {prefix}jobs (region) WHERE region IS NOT NULL;\n"
    f"INSERT INTO {{prefix}}schema_version (version, applied_at, works_with) VALUES ({NEXT}, {{now}}, 1);\n",
}
"""A later release adds something to the table that workers write all the time."""
MANY_JOBS = """
INSERT INTO onward.jobs (
    id, type, queue, priority, status, payload, payload_hash, scheduled_at, max_attempts, created_at, updated_at
)
SELECT 'many' || number, 'work', 'default', 0, 'queued', 'null', '', now(), 3, now(), now() FROM generate_series(1, 2000) AS number
"""
CLAIM_SOME = """
UPDATE onward.jobs SET lease_until = now(), fence = fence + 1 WHERE id IN (
    SELECT id FROM onward.jobs WHERE status IN ('queued', 'retrying') AND blocked_by IS NULL AND queue = 'default'
    ORDER BY priority DESC, scheduled_at, id LIMIT 5 FOR NO KEY UPDATE SKIP LOCKED
)
"""
WAITING_FOR_THE_TABLE = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'onward.jobs'::regclass"


@pytest.fixture
def tables(postgres_database: str) -> PostgresTables:
    return PostgresTables(postgres_database)


@pytest.fixture
def connection(tables: PostgresTables) -> Iterator[psycopg.Connection[Any]]:
    with tables.connected() as connection:
        yield connection


@pytest.fixture
def role(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """A role that may log in, and nothing more. Its rights in the database end with it."""
    name = f"onward_test_role_{connection.info.backend_pid}"
    connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'".encode())
    yield name
    connection.execute(f"DROP OWNED BY {name} CASCADE".encode())
    connection.execute(f"DROP ROLE {name}".encode())


@contextmanager
def connected_as(role: str, url: str) -> Iterator[psycopg.Connection[Any]]:
    parts = urlsplit(url)
    if not parts.hostname:
        pytest.skip("the server is reached through a socket, where no other role can log in")
    asked = urlunsplit(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port or 5432}"))
    with psycopg.connect(asked, autocommit=True) as connection:
        yield connection


# -- whose schema it is --------------------------------------------------------------------------------------------------


def test_a_role_that_may_not_create_is_told_of_the_script(tables: PostgresTables, connection: psycopg.Connection[Any], role: str) -> None:
    """In many companies the application's role may not change tables, and a person runs what the application prints."""
    with connected_as(role, tables.url) as weak:
        with pytest.raises(SchemaOutOfDate, match=r"may not make the tables of schema onward .*'onward migrate --sql'"):
            migrate(weak, "onward")
        connection.execute(migration_sql(version(weak, "onward"), "onward").encode())
        with pytest.raises(SchemaOutOfDate, match=r"may not read the tables .* grant it USAGE on the schema"):
            version(weak, "onward")
        connection.execute(f"GRANT USAGE ON SCHEMA onward TO {role}".encode())
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA onward TO {role}".encode())
        assert version(weak, "onward") == newest()
        migrate(weak, "onward")
        with pytest.raises(SchemaOutOfDate, match="'onward migrate --sql'"):
            migrate(weak, "onward", ADDING)


def test_a_schema_that_was_made_for_a_role_is_enough(tables: PostgresTables, connection: psycopg.Connection[Any], role: str) -> None:
    """Then it needs no right to create schemas."""
    connection.execute(f"CREATE SCHEMA jobs_here AUTHORIZATION {role}".encode())
    with connected_as(role, tables.url) as weak:
        migrate(weak, "jobs_here")
        assert version(weak, "jobs_here") == newest()


def test_any_valid_name_of_a_schema_can_be_used(connection: psycopg.Connection[Any]) -> None:
    """Capitals and words of SQL need quotes, wherever the name stands."""
    for name in ("Jobs", "select", "_9"):
        migrate(connection, name)
        assert version(connection, name) == newest()


# -- what else is in it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        ("CREATE TABLE {prefix}keys (door text)", "has a table keys that Onward did not make"),
        ("CREATE VIEW {prefix}limits AS SELECT 1 AS one", "has a table limits that Onward did not make"),
        ("CREATE TABLE {prefix}schema_version (version text, script text)", "has a table schema_version that Onward did not make"),
        ("CREATE TYPE {prefix}history AS ENUM ('modern')", "holds something that Onward did not make .*history"),
        ("CREATE SEQUENCE {prefix}jobs_claim", "holds something that Onward did not make .*jobs_claim"),
    ],
)
def test_what_somebody_else_made_is_named_and_left_alone(
    tables: PostgresTables, connection: psycopg.Connection[Any], theirs: str, told: str
) -> None:
    """In a schema that is shared, names clash; a line says which, and what to do."""
    tables.make_room()
    tables.run(theirs)
    before = tables.catalog()
    with pytest.raises(SchemaOutOfDate, match=rf"{told}.*: give the store a schema of its own"):
        migrate(connection, "onward")
    assert tables.catalog() == before


@pytest.mark.parametrize("table", ["jobs", "keys", "history"])
def test_an_instant_that_nobody_could_read_is_not_stored(tables: PostgresTables, table: str) -> None:
    """A job at infinity would wait for ever, and what has ended at infinity would never be pruned."""
    tables.load("1")
    found = tables.rows(
        "SELECT column_name FROM information_schema.columns "
        f"WHERE table_schema = 'onward' AND table_name = '{table}' AND data_type = 'timestamp with time zone'"
    )
    assert len(found) == {"jobs": 8, "keys": 1, "history": 2}[table]
    for (column,) in found:
        for moment in ("infinity", "-infinity", "10000-01-01 00:00:00+00", "0001-01-01 00:00:00+00 BC"):
            with pytest.raises(psycopg.errors.CheckViolation):
                tables.run(f"UPDATE {{prefix}}{table} SET {column} = '{moment}'")
        tables.run(f"UPDATE {{prefix}}{table} SET {column} = '9999-12-31 23:59:59.999999+00'")
        tables.run(f"UPDATE {{prefix}}{table} SET {column} = '0001-01-01 00:00:00+00'")


@pytest.mark.parametrize("lease", ["infinity", "-infinity", "10000-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"])
def test_a_lease_that_nobody_could_read_is_taken_back(tables: PostgresTables, lease: str) -> None:
    """Somebody has dropped the rule that refuses it; the job must not be in progress for ever."""
    tables.load("1")
    tables.run("ALTER TABLE {prefix}jobs DROP CONSTRAINT jobs_instants")
    tables.run(f"UPDATE {{prefix}}jobs SET lease_until = '{lease}' WHERE status = 'in_progress'")
    with closing(tables.store(migrate=True)) as store:
        store.sweep()
        assert store.count(JobFilter(statuses=(Status.IN_PROGRESS,))) == 0
        assert len(store.find(JobFilter(types=("mail",), statuses=(Status.QUEUED, Status.DEAD_LETTER)))) == 1


def test_a_renewal_touches_no_index(tables: PostgresTables, connection: psycopg.Connection[Any]) -> None:
    """Every running job is renewed several times a minute; in an index each would leave a dead entry."""
    tables.load("1")
    with connection.transaction():
        renewed = "UPDATE onward.jobs SET lease_until = now(), updated_at = now(), progress = '{}' WHERE status = 'in_progress'"
        assert connection.execute(renewed).rowcount == 1
        # What this transaction has done so far, without waiting for the statistics to be told.
        done = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'jobs'"
        assert connection.execute(done).fetchall() == [(1, 1)]


# -- several at once -----------------------------------------------------------------------------------------------------


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[Callable[[], list[BaseException]]]:
    """Run in a thread; gives what waits for its end and says what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def end() -> list[BaseException]:
        thread.join(timeout=60)
        assert not thread.is_alive()
        return raised

    try:
        yield end
    finally:
        thread.join(timeout=60)


def _patiently(what: str) -> Iterator[int]:
    """Look again and again, for ten seconds."""
    deadline = time.monotonic() + 10
    for look in itertools.count():
        yield look
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_a_second_migrator_waits_without_a_transaction(tables: PostgresTables, isolation: str) -> None:
    """A transaction that waits holds back the cleaning up of dead rows in the whole database, and the first may take long."""
    with tables.connected() as first, tables.connected() as second, tables.connected() as watcher:
        second.execute(f"SET default_transaction_isolation = '{isolation}'".encode())
        first.execute("BEGIN")
        first.execute("SELECT pg_advisory_xact_lock(hashtextextended('onward migrate onward', 0))")
        with in_background(lambda: migrate(second, "onward")) as end:
            rests = 0
            for _ in _patiently("the second migrator rests between two tries"):
                activity = "SELECT state, wait_event_type FROM pg_stat_activity WHERE pid = %s"
                (found,) = watcher.execute(activity, [second.info.backend_pid]).fetchall()
                assert found[1] != "Lock"
                rests += found[0] == "idle"
                if rests == 20:
                    break
            first.execute(migration_sql(0, "onward").replace("BEGIN;", "", 1).encode())
            assert end() == []
        assert second.execute("SHOW lock_timeout").fetchall() == [("0",)]
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert second.execute(held).fetchall() == [(0,)]
        assert version(second, "onward") == newest()
        assert watcher.execute("SELECT version FROM onward.schema_version").fetchall() == [(number,) for number in migrations()]


def test_a_store_that_waits_for_another_migration_is_in_no_transaction(tables: PostgresTables, connection: psycopg.Connection[Any]) -> None:
    """Also its look at the version must not begin one. Whoever lists the server's sessions finds the one that waits under Onward's name."""
    activity = "SELECT state FROM pg_stat_activity WHERE application_name = 'onward' AND datname = current_database()"
    with tables.connected() as first, closing(tables.store(migrate=True)) as store:
        first.execute("BEGIN")
        first.execute("SELECT pg_advisory_xact_lock(hashtextextended('onward migrate onward', 0))")
        with in_background(store.open) as end:
            try:
                rests = 0
                for _ in _patiently("the store rests between two tries"):
                    rests += connection.execute(activity).fetchall() == [("idle",)]
                    if rests == 20:
                        break
            finally:
                first.execute("ROLLBACK")
            assert end() == []
        assert version(connection, "onward") == newest()


def test_workers_do_not_notice_a_migration(tables: PostgresTables) -> None:
    """They go on claiming while a column and an index are added, and while the migration waits for somebody's open transaction."""
    tables.load("1")
    with tables.connected() as connection:
        migrate(connection, "onward")
    tables.run(MANY_JOBS)
    stop, waits = threading.Event(), [0.0]

    def work() -> None:
        with tables.connected() as connection:
            while not stop.is_set():
                began = time.monotonic()
                connection.execute(CLAIM_SOME.encode())
                waits.append(time.monotonic() - began)

    def change() -> None:
        with tables.connected() as connection:
            migrate(connection, "onward", ADDING)

    with tables.connected() as application, tables.connected() as watcher, in_background(work) as one, in_background(work) as other:
        try:
            application.execute("BEGIN")
            application.execute("LOCK TABLE onward.jobs IN ROW EXCLUSIVE MODE")
            with in_background(change) as changed:
                # It waits, gives up, and waits again.
                for is_waiting in (True, False, True):
                    for _ in _patiently("the migration tries, and tries again"):
                        if bool(watcher.execute(WAITING_FOR_THE_TABLE).fetchall()) is is_waiting:
                            break
                assert version(watcher, "onward") == newest()
                application.execute("COMMIT")
                assert changed() == []
        finally:
            stop.set()
        assert one() == other() == []
        assert version(watcher, "onward") == NEXT
    assert len(waits) > 10
    assert max(waits) < LONGEST_WAIT


def test_a_table_that_is_never_free_ends_the_migration_with_a_line(
    tables: PostgresTables, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment must not hang for ever behind a forgotten transaction."""
    from onward.errors import StoreBusy

    tables.load("1")
    migrate(connection, "onward")
    monkeypatch.setattr("onward.drivers.postgres.migrate.PATIENCE", 0.5)
    with tables.connected() as application, application.transaction():
        application.execute("LOCK TABLE onward.jobs IN ROW EXCLUSIVE MODE")
        with pytest.raises(StoreBusy, match=r"schema onward .* a transaction that holds a table"):
            migrate(connection, "onward", ADDING)
    assert version(connection, "onward") == newest()
