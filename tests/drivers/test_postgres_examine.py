"""What ``onward doctor`` says about a Postgres store: each bad state is made to happen, and must be named with what to do."""

from __future__ import annotations

import contextlib
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import pq, sql

from onward.clock import FakeClock, SystemClock
from onward.drivers import connect
from onward.drivers.postgres import upkeep
from onward.drivers.postgres.connections import Connections
from onward.drivers.postgres.database import Database
from onward.drivers.postgres.examine import asking, clock, release
from onward.drivers.postgres.migrate import newest
from onward.drivers.postgres.route import pooler as look_for_a_pooler
from onward.drivers.postgres.statement_text import StatementText
from onward.drivers.postgres.upkeep import OLD_TRANSACTIONS, old_transactions
from onward.drivers.sql.migrations import TABLES
from onward.errors import SchemaOutOfDate
from onward.inspection import Finding
from onward.testing.factories import make_new_job
from tests.drivers.pooler import Pooler
from tests.drivers.tables import PostgresTables
from tests.postgres_databases import Databases
from tests.postgres_server import NoPostgres, do_without
from tests.postgres_wheel import NEWEST, OwnServer

OF_THE_SERVER = {"fsync", "full_page_writes", "autovacuum", "connections", "old transactions", "queue of notifications"}
"""What this machine's server, or somebody else who uses it, may be the cause of."""


def examined(url: str, **options: Any) -> list[Finding]:
    store = connect(url, clock=SystemClock(), **options)
    try:
        return store.examine()
    finally:
        store.close()


def named(findings: list[Finding], name: str) -> Finding:
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def complaints(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level != "ok" and finding.name not in OF_THE_SERVER]


@pytest.fixture
def url(postgres_database: str) -> str:
    """A database of its own, with tables."""
    store = connect(postgres_database, clock=SystemClock(), migrate=True)
    store.open()
    store.close()
    return postgres_database


@pytest.fixture
def tables(url: str) -> PostgresTables:
    return PostgresTables(url)


@contextmanager
def connected(url: str) -> Iterator[tuple[Database, StatementText]]:
    """What the looks are given, for those that a test asks by themselves."""
    connections, text = Connections(url, most=2, timeout=5, prepare=True), StatementText("onward", notify=True)
    yield Database(connections, text, SystemClock(), timeout=5, place="here", check=lambda: None), text
    connections.close()


@pytest.fixture
def database(url: str) -> Iterator[tuple[Database, StatementText]]:
    with connected(url) as given:
        yield given


@pytest.fixture
def role(tables: PostgresTables) -> Iterator[str]:
    """A role that may log in and use the schema, and nothing more."""
    with tables.connected() as connection:
        name = f"onward_test_role_{connection.info.backend_pid}"
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA onward TO {name}; GRANT SELECT ON onward.schema_version TO {name}".encode())
        yield name
        connection.execute(f"DROP OWNED BY {name} CASCADE".encode())
        connection.execute(f"DROP ROLE {name}".encode())


def url_of(role: str, url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname:
        pytest.skip("the server is reached through a socket, where no other role can log in")
    return urlunsplit(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port or 5432}"))


@contextmanager
def open_transaction(url: str, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody's transaction that has done these, and stays open."""
    with psycopg.connect(url, application_name="report") as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield connection
        connection.rollback()


@contextmanager
def with_settings(url: str, **settings: str) -> Iterator[None]:
    """The database's settings for everybody who connects."""
    name = sql.Identifier(urlsplit(url).path[1:])
    with psycopg.connect(url, autocommit=True) as connection:
        for setting, value in settings.items():
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.Identifier(setting), value))
    yield


# -- nothing to complain of ----------------------------------------------------------------------------------------------


def test_a_sound_store_gets_no_complaint(url: str) -> None:
    """A doctor that always finds something is not listened to."""
    findings = examined(url)
    assert complaints(findings) == []
    assert named(findings, "schema").text == f"version {newest()}"
    assert named(findings, "notifications").text == "one that was sent arrived"
    assert named(findings, "pooler").text == "none is in between"
    assert named(findings, "timeouts").text == "none is shorter than 1000 ms"
    assert named(findings, "jobs").text == "none"


def test_looking_changes_nothing(url: str, tables: PostgresTables) -> None:
    """The tables are made once more to compare with; not a trace of them may stay, also while the store stays open."""
    before = tables.catalog(), tables.rows("SELECT relname FROM pg_class ORDER BY oid")
    store = connect(url, clock=SystemClock())
    try:
        for _ in range(2):
            assert complaints(store.examine()) == []
            assert (tables.catalog(), tables.rows("SELECT relname FROM pg_class ORDER BY oid")) == before
    finally:
        store.close()


def test_the_database_is_named_as_it_really_is(url: str) -> None:
    """A host name may lead to an old server, and a pooler to anything."""
    found = named(examined(url), "database")
    ((oid, role),) = PostgresTables(url).rows("SELECT oid, current_user FROM pg_database WHERE datname = current_database()")
    assert found.level == "ok"
    assert urlsplit(url).path[1:] in found.text
    assert f"(oid {oid})" in found.text
    assert found.text.endswith(f"as {role}")


def test_without_tables_there_is_nothing_to_examine(postgres_database: str) -> None:
    """One line says what to do, rather than a dozen about what is missing."""
    with pytest.raises(SchemaOutOfDate, match="run onward migrate"):
        examined(postgres_database)


def test_a_schema_of_another_name_is_examined_as_well(postgres_database: str) -> None:
    """Its name stands in every piece of advice, in quotes where it needs them."""
    url = f"{postgres_database}?schema=Jobs_Of_Us"
    assert complaints(examined(url, migrate=True)) == []
    PostgresTables(postgres_database, "Jobs_Of_Us").run("DROP INDEX {prefix}jobs_claim")
    assert 'ON "Jobs_Of_Us".jobs (' in named(examined(url), "schema drift").text


def test_jobs_are_counted(url: str) -> None:
    """The newest one's time gives away a store that nobody uses any more."""
    store = connect(url, clock=FakeClock())
    store.enqueue([make_new_job(), make_new_job()])
    found = named(store.examine(), "jobs")
    store.close()
    assert found.text == "2 queued; the newest was enqueued at 2026-01-01T00:00:00.000000Z"


def test_a_row_without_an_instant_hides_nothing(url: str, tables: PostgresTables) -> None:
    """Somebody dropped the rule that refuses it, and one damaged row must not hide everything else that doctor has to say."""
    store = connect(url, clock=SystemClock())
    store.enqueue([make_new_job()])
    tables.run("ALTER TABLE {prefix}jobs DROP CONSTRAINT jobs_instants; UPDATE {prefix}jobs SET created_at = 'infinity'")
    found = store.examine()
    store.close()
    assert named(found, "jobs").text == "1 queued; the newest was enqueued at no instant that can be read"
    assert "jobs_instants" in named(found, "schema drift").text


def test_types_that_no_worker_knew_are_named(url: str, tables: PostgresTables) -> None:
    """They wait for ever, cost nothing, and nobody notices."""
    store = connect(url, clock=SystemClock())
    store.enqueue([make_new_job(type=name) for name in ("paint", "paint", "other", "another")])
    tables.run("UPDATE {prefix}jobs SET blocked_by = CASE type WHEN 'paint' THEN 'type' ELSE 'breaker' END WHERE type <> 'another'")
    found = named(store.examine(), "blocked types")
    store.close()
    assert (found.level, "paint (2)" in found.text, "other" in found.text) == ("warning", True, False)


# -- the server and its settings -----------------------------------------------------------------------------------------


def test_a_server_that_is_too_old_is_refused() -> None:
    """Its statements would fail one by one, in the one situation that needs each."""
    (found,) = release({"number": 130012, "version": "13.12"})
    assert (found.level, "13.12" in found.text, "14 or newer" in found.text) == ("error", True, True)


@pytest.mark.parametrize(
    ("setting", "value", "name", "level", "part"),
    [
        ("synchronous_commit", "off", "synchronous_commit", "error", "may lose accepted jobs"),
        ("default_transaction_isolation", "serializable", "isolation", "warning", "default is serializable"),
        ("default_transaction_read_only", "on", "read only", "error", "nothing can be enqueued"),
        ("statement_timeout", "500ms", "timeouts", "warning", "statement_timeout = 500 ms"),
        ("lock_timeout", "20ms", "timeouts", "warning", "lock_timeout = 20 ms"),
        ("idle_in_transaction_session_timeout", "900ms", "timeouts", "warning", "idle_in_transaction_session_timeout = 900 ms"),
        ("idle_session_timeout", "900ms", "timeouts", "warning", "= 900 ms: work of Onward's"),
    ],
)
def test_a_setting_that_weakens_a_promise_is_named(url: str, setting: str, value: str, name: str, level: str, part: str) -> None:
    """They are set for a role or a database, far from the code that relies upon them."""
    with with_settings(url, **{setting: value}):
        found = named(examined(url), name)
    assert (found.level, part in found.text) == (level, True), found


def test_a_timeout_of_a_second_is_no_matter(url: str) -> None:
    """Many have one, and it cuts off nothing that goes well."""
    with with_settings(url, statement_timeout="30s", lock_timeout="1s"):
        assert complaints(examined(url)) == []


def test_an_encoding_that_lacks_characters_is_named(postgres: Any, postgres_database: str) -> None:
    """The first payload with another alphabet would be refused, months later."""
    name = f"{urlsplit(postgres_database).path[1:]}_ascii"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        found = named(examined(postgres.database(name), migrate=True), "encoding")
    finally:
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert (found.level, found.text.partition(":")[0]) == ("warning", "LATIN1")


def test_a_clock_that_differs_is_named(database: tuple[Database, StatementText]) -> None:
    """Jobs follow the database, but whoever reads the logs of both sees effects before their causes."""
    (right,) = clock(*database)
    assert right.level == "ok"
    ahead = FakeClock(SystemClock().now() + timedelta(minutes=10))
    (wrong,) = clock(*database, host=ahead)
    assert (wrong.level, "s behind this host" in wrong.text) == ("warning", True)


def test_an_answer_that_was_long_on_its_way_is_no_wrong_clock(database: tuple[Database, StatementText]) -> None:
    """The database was asked at some moment in between, which is all that is known."""

    class Slow(SystemClock):
        asked = 0

        def now(self) -> datetime:
            self.asked += 1
            return super().now() + timedelta(seconds=(-10, 10)[self.asked - 1])

    (found,) = clock(*database, host=Slow())
    assert found.level == "ok"


@pytest.fixture(scope="module")
def broken_server() -> Iterator[OwnServer]:
    """A server that is set up as badly as can be, and small."""
    try:
        server = OwnServer.make(NEWEST)
    except NoPostgres as reason:
        do_without(reason)
    try:
        settings = {
            "full_page_writes": "off",
            "autovacuum": "off",
            "max_connections": "12",
            "max_prepared_transactions": "3",
            "max_notify_queue_pages": "64",
            "wal_level": "replica",
            "max_wal_senders": "4",
            "max_replication_slots": "4",
        }
        for name, value in settings.items():
            server.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        server.restart()
        examined(server.url, migrate=True)
        yield server
    finally:
        server.close()


def wait_for(server: OwnServer, query: str) -> None:
    """Ask on new connections until there is a row. Each takes some milliseconds, so this is no busy loop."""
    until = time.monotonic() + 20
    while not server.execute(query):
        assert time.monotonic() < until, query


def test_a_server_that_does_not_keep_its_commits_is_named(broken_server: OwnServer) -> None:
    """Each of these loses what was accepted, or makes claims slower from day to day."""
    findings = examined(broken_server.url)
    for name in ("fsync", "full_page_writes", "autovacuum"):
        assert named(findings, name).level == "error", name
        assert f"{name} = on" in named(findings, name).text


def test_a_server_that_has_hardly_a_connection_left_is_named(broken_server: OwnServer) -> None:
    """The next process that starts would be refused."""
    assert named(examined(broken_server.url), "connections").level == "ok"
    with contextlib.ExitStack() as opened:
        for _ in range(8):
            opened.enter_context(psycopg.connect(broken_server.url, autocommit=True))
        found = named(examined(broken_server.url), "connections")
    assert (found.level, "of 9 are in use" in found.text) == ("warning", True), found


def test_a_timeout_that_only_newer_servers_have_is_named_there(
    broken_server: OwnServer, postgres_databases: Callable[[str], Databases]
) -> None:
    """From 17 on a whole transaction can be limited. An older server knows nothing of it, and that is nothing to complain of."""
    broken_server.execute("CREATE DATABASE limited")
    url = broken_server.server.database("limited")
    assert named(examined(url, migrate=True), "timeouts").level == "ok"
    with with_settings(url, transaction_timeout="900ms"):
        found = named(examined(url), "timeouts")
    assert (found.level, "transaction_timeout = 900 ms" in found.text) == ("warning", True), found
    older = postgres_databases("postgres-wheel").create()
    assert named(examined(older, migrate=True), "timeouts") == Finding("timeouts", "ok", "none is shorter than 1000 ms")
    postgres_databases("postgres-wheel").drop(older)


def test_commits_that_a_standby_need_not_have_are_named(broken_server: OwnServer) -> None:
    """They are gone when the standby takes over."""
    broken_server.execute("CREATE DATABASE hasty")
    url = broken_server.server.database("hasty")
    examined(url, migrate=True)
    with with_settings(url, synchronous_commit="local"):
        assert named(examined(url), "synchronous_commit").level == "ok"
        broken_server.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        broken_server.execute("SELECT pg_reload_conf()")
        try:
            wait_for(broken_server, "SELECT 1 WHERE current_setting('synchronous_standby_names') = '*'")
            found = named(examined(url), "synchronous_commit")
        finally:
            broken_server.execute("ALTER SYSTEM RESET synchronous_standby_names")
            broken_server.execute("SELECT pg_reload_conf()")
    assert (found.level, "standby takes over" in found.text) == ("warning", True)


def test_a_standby_is_named(private_postgres: OwnServer) -> None:
    """A worker there would fail at its first claim."""
    private_postgres.execute("ALTER SYSTEM SET wal_level = 'replica'")
    private_postgres.restart()
    examined(private_postgres.url, migrate=True)
    private_postgres.stop()
    (private_postgres.folder / "data" / "standby.signal").touch()
    private_postgres.start()
    findings = examined(private_postgres.url)
    assert (named(findings, "database").level, "the URL of the primary" in named(findings, "database").text) == ("error", True)
    assert named(findings, "notifications").level == "warning"
    assert "only indexes were checked" in named(findings, "schema drift").text
    assert named(findings, "jobs").text == "none"


# -- drift ---------------------------------------------------------------------------------------------------------------

REPLACED_CLAIM = """
DROP INDEX {prefix}jobs_claim;
CREATE INDEX jobs_claim ON {prefix}jobs (queue, priority DESC, scheduled_at, id) WHERE status IN ('queued', 'retrying')
"""
TRIGGERED = """
CREATE FUNCTION {prefix}nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER audit BEFORE UPDATE ON {prefix}jobs FOR EACH ROW EXECUTE FUNCTION {prefix}nothing()
"""


@pytest.mark.parametrize(
    ("change", "name", "level", "part"),
    [
        (
            "DROP INDEX {prefix}jobs_claim",
            "schema drift",
            "error",
            'CREATE INDEX CONCURRENTLY jobs_claim ON "onward".jobs (queue, priority DESC',
        ),
        ("DROP INDEX {prefix}jobs_running", "schema drift", "error", "CREATE INDEX CONCURRENTLY jobs_running ON"),
        (REPLACED_CLAIM, "schema drift", "error", "jobs_claim was changed"),
        (
            "ALTER TABLE {prefix}jobs ALTER priority TYPE bigint",
            "schema drift",
            "error",
            '"bigint NOT NULL" and should be "integer NOT NULL"',
        ),
        ("ALTER TABLE {prefix}jobs ALTER owner DROP NOT NULL", "schema drift", "error", "column owner"),
        ("ALTER TABLE {prefix}jobs ALTER metadata DROP DEFAULT", "schema drift", "error", "DEFAULT '{}'::text"),
        ('ALTER TABLE {prefix}jobs ALTER queue TYPE text COLLATE "default"', "schema drift", "error", "COLLATE"),
        ("ALTER TABLE {prefix}history DROP COLUMN failed", "schema drift", "error", "ADD COLUMN failed bigint NOT NULL DEFAULT 0"),
        ("ALTER TABLE {prefix}jobs DROP CONSTRAINT jobs_status_check", "schema drift", "warning", "ADD CONSTRAINT jobs_status_check CHECK"),
        ("ALTER TABLE {prefix}keys DROP CONSTRAINT keys_pkey", "schema drift", "error", "PRIMARY KEY (owner, type, key)"),
        ("ALTER TABLE {prefix}jobs ADD COLUMN region text NOT NULL", "added column", "error", "every insert fails"),
        ("ALTER TABLE {prefix}jobs ADD COLUMN region text", "added column", "warning", "region on"),
        ("ALTER TABLE {prefix}jobs ADD CONSTRAINT short CHECK (length(queue) < 9)", "added constraint", "warning", "short on"),
        ("ALTER TABLE {prefix}jobs ADD CONSTRAINT once UNIQUE (payload_hash)", "added constraint", "warning", "once on"),
        ("ALTER TABLE {prefix}jobs ADD CONSTRAINT one EXCLUDE USING btree (id WITH =)", "added constraint", "warning", "one on"),
        (
            "ALTER TABLE {prefix}history ADD FOREIGN KEY (job_id) REFERENCES {prefix}jobs",
            "added constraint",
            "warning",
            "history_job_id_fkey",
        ),
        ("CREATE INDEX by_update ON {prefix}jobs (updated_at)", "added index", "warning", "by_update on"),
        (TRIGGERED, "added trigger", "warning", "audit on"),
        (TRIGGERED.replace("TRIGGER audit BEFORE", "CONSTRAINT TRIGGER audit AFTER"), "added trigger", "warning", "audit on"),
        ("ALTER TABLE {prefix}jobs SET UNLOGGED", "unlogged tables", "error", 'ALTER TABLE "onward".jobs SET LOGGED'),
    ],
)
def test_tables_that_were_changed_by_hand_are_named(
    url: str, tables: PostgresTables, change: str, name: str, level: str, part: str
) -> None:
    """What was changed by hand is remembered by nobody, and an upgrade may meet it."""
    tables.run(change)
    findings = examined(url)
    found = named(findings, name)
    assert (found.level, part in found.text) == (level, True), found
    assert complaints(findings) == [found]
    assert [one.name for one in complaints(findings)] == [name]


def test_the_advice_for_a_missing_index_can_be_followed_as_it_stands(url: str, tables: PostgresTables) -> None:
    """It goes from the screen into a shell, in the middle of an outage."""
    tables.run("DROP INDEX {prefix}jobs_claim, {prefix}jobs_final")
    advice = [finding.text.partition(": ")[2] for finding in examined(url) if finding.name == "schema drift"]
    assert len(advice) == 2
    for statement in advice:
        tables.run(statement)
    assert complaints(examined(url)) == []


def test_an_invalid_index_is_named(url: str, tables: PostgresTables) -> None:
    """It looks as if it were there, costs at every write, and no statement uses it."""
    tables.run("DROP INDEX {prefix}jobs_claim")
    statement = named(examined(url), "schema drift").text.partition(": ")[2]
    with open_transaction(url, "LOCK TABLE onward.jobs IN ROW EXCLUSIVE MODE"), tables.connected() as connection:
        connection.execute("SET statement_timeout = 200")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(statement.encode())
    found = named(examined(url), "schema drift")
    assert (found.level, found.text.partition(": ")[2]) == ("error", 'REINDEX INDEX CONCURRENTLY "onward".jobs_claim')
    tables.run(found.text.partition(": ")[2])
    assert complaints(examined(url)) == []


def test_what_a_newer_onward_added_is_no_drift(url: str, tables: PostgresTables) -> None:
    """Workers of two releases run beside each other during an upgrade."""
    tables.run(f"ALTER TABLE {{prefix}}jobs ADD COLUMN region text; INSERT INTO {{prefix}}schema_version VALUES ({newest() + 1}, now(), 1)")
    assert complaints(examined(url)) == []


def test_where_no_model_can_be_made_the_indexes_are_looked_at_all_the_same(url: str, tables: PostgresTables, role: str) -> None:
    """Some take the right to make temporary tables from everybody."""
    tables.run(f"GRANT ALL ON ALL TABLES IN SCHEMA onward TO {role}; DROP INDEX {{prefix}}jobs_claim")
    tables.run(f"REVOKE TEMPORARY ON DATABASE {urlsplit(url).path[1:]} FROM PUBLIC")
    drift = [finding for finding in examined(url_of(role, url)) if finding.name == "schema drift"]
    assert [(one.level, one.text.partition(" ")[0]) for one in drift] == [("warning", "only"), ("error", "index")]


# -- rights --------------------------------------------------------------------------------------------------------------


def test_a_role_that_lacks_a_right_is_told_which(url: str, tables: PostgresTables, role: str) -> None:
    """The first enqueue would fail, or only the first prune, days later."""
    tables.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA onward TO {role}")
    assert complaints(examined(url_of(role, url))) == []
    tables.run(f"REVOKE DELETE, UPDATE ON onward.keys FROM {role}")
    found = named(examined(url_of(role, url)), "rights")
    assert (found.level, f'GRANT UPDATE, DELETE ON "onward".keys TO "{role}"' in found.text) == ("error", True), found
    tables.run(found.text.partition(": ")[2])
    assert complaints(examined(url_of(role, url))) == []


def test_a_role_that_may_read_nothing_still_hears_of_the_rest(url: str, role: str) -> None:
    """One look that fails must not hide the others."""
    findings = examined(url_of(role, url))
    assert "could not be looked at" in named(findings, "jobs").text
    assert [one.level for one in findings if one.name == "rights"] == ["error"] * len(TABLES)
    assert named(findings, "synchronous_commit").level == "ok"


def test_row_security_that_hides_jobs_is_named(url: str, tables: PostgresTables, role: str) -> None:
    """Everything works, and there are never any jobs."""
    tables.run(f"GRANT ALL ON ALL TABLES IN SCHEMA onward TO {role}; ALTER TABLE {{prefix}}jobs ENABLE ROW LEVEL SECURITY")
    findings = examined(url_of(role, url))
    assert "rights" not in {one.name for one in findings}
    found = named(findings, "row security")
    assert (found.level, 'ALTER TABLE "onward".jobs DISABLE ROW LEVEL SECURITY' in found.text) == ("error", True)


# -- notifications and poolers -------------------------------------------------------------------------------------------


def test_notifications_that_are_off_are_no_fault(url: str) -> None:
    """Somebody has decided so."""
    found = named(examined(f"{url}?notify=off"), "notifications")
    assert (found.level, found.text.startswith("off: ")) == ("ok", True)


def test_a_listen_url_that_leads_nowhere_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers go on without, only later, so nobody would notice."""
    monkeypatch.setenv("ONWARD_LISTEN_URL", "postgresql://127.0.0.1:1/none")
    found = named(examined(url), "notifications")
    assert (found.level, "correct ONWARD_LISTEN_URL" in found.text) == ("warning", True)


def test_a_listen_url_that_leads_to_another_database_is_named(url: str, postgres: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LISTEN succeeds there, and hears nothing for ever."""
    monkeypatch.setenv("ONWARD_LISTEN_URL", postgres.database("template1"))
    found = named(examined(url), "notifications")
    assert (found.level, "ONWARD_LISTEN_URL leads to template1" in found.text) == ("warning", True)
    assert urlsplit(url).path[1:] in found.text


def test_a_pooler_that_lends_for_a_transaction_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements fail now and then, and no notification arrives."""
    with Pooler(url, "transaction") as pooler:
        findings = examined(pooler.url)
        assert (named(findings, "pooler").level, "prepare=off" in named(findings, "pooler").text) == ("error", True)
        assert (named(findings, "notifications").level, "ONWARD_LISTEN_URL" in named(findings, "notifications").text) == ("warning", True)
        assert named(findings, "schema drift").level == "ok"
        monkeypatch.setenv("ONWARD_LISTEN_URL", url)
        mended = examined(f"{pooler.url}?prepare=off")
    assert (named(mended, "pooler").level, "for a transaction" in named(mended, "pooler").text) == ("ok", True)
    assert named(mended, "notifications").level == "ok"


def test_a_pooler_that_lends_for_a_session_is_told_apart(url: str) -> None:
    """Nothing has to be changed for it."""
    with Pooler(url, "session") as pooler:
        found = named(examined(pooler.url), "pooler")
    assert (found.level, "for a whole session" in found.text) == ("ok", True)


def test_a_connection_that_a_pooler_lent_listens_no_more(url: str) -> None:
    """It is lent to others for months, and one of them in a long transaction would fill the server's queue of notifications."""
    with Pooler(url, "transaction") as between, contextlib.ExitStack() as opened:
        examined(between.url)
        heard = []
        for _ in range(6):  # each begins a transaction, and so is lent another one
            client = opened.enter_context(psycopg.connect(between.url))
            heard += client.execute("SELECT pg_listening_channels()").fetchall()
    assert heard == []


def test_a_pooler_that_has_no_connection_to_spare_is_not_accused(url: str) -> None:
    """One that lends for a transaction would have had one: that of an idle session. An error would stop a deployment for nothing."""
    with Pooler(url, "session", most=2) as between, connected(between.url) as given:
        (found,) = look_for_a_pooler(*given)
    assert (found.level, "for a whole session" in found.text) == ("ok", True), found


def test_a_full_queue_of_notifications_is_named(broken_server: OwnServer) -> None:
    """When it is quite full, every commit that notifies fails."""
    assert named(examined(broken_server.url), "queue of notifications").level == "ok"
    with psycopg.connect(broken_server.url, autocommit=True) as listener:
        listener.execute("LISTEN somewhere")
        listener.execute("BEGIN")
        broken_server.execute("SELECT pg_notify('somewhere', repeat('x', 7000) || number) FROM generate_series(1, 20) AS number")
        found = named(examined(broken_server.url), "queue of notifications")
        listener.execute("ROLLBACK")
    assert (found.level, "sits in a transaction" in found.text) == ("warning", True), found


# -- old transactions, dead rows -----------------------------------------------------------------------------------------


def old(database: tuple[Database, StatementText], older_than: timedelta = timedelta(0)) -> list[str]:
    return [one.text for one in old_transactions(asking(*database), sees_everybody=True, older_than=older_than)]


def test_an_old_transaction_is_named(url: str, database: tuple[Database, StatementText]) -> None:
    """One report that runs for hours makes every claim slower, and nothing points to it."""
    with open_transaction(url, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1") as report:
        (found,) = [text for text in old(database) if "report" in text]
        assert f"process {report.info.backend_pid} (report, postgres, idle in transaction)" in found
        assert f"pg_terminate_backend({report.info.backend_pid})" in found
        assert "claims become slower" in found
        (young,) = old(database, timedelta(minutes=5))
        assert "none is older than 5m; the oldest is 0 s old" in young
    assert not any("report" in text for text in old(database))


def test_a_transaction_that_holds_nothing_back_is_left_alone(url: str, database: tuple[Database, StatementText]) -> None:
    """Without a snapshot and without a change it may stay open all day."""
    with open_transaction(url, "SELECT 1"):
        assert not any("report" in text for text in old(database))
    for holding in ("SELECT pg_current_xact_id()", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1"):
        with open_transaction(url, holding):
            assert any("report" in text for text in old(database)), holding


def test_a_role_that_cannot_see_others_says_so(url: str, tables: PostgresTables, role: str) -> None:
    """Nothing found is not the same as nothing there."""
    tables.run(f"GRANT ALL ON ALL TABLES IN SCHEMA onward TO {role}")
    assert "pg_read_all_stats" in named(examined(url_of(role, url)), "old transactions").text
    tables.run(f"GRANT pg_read_all_stats TO {role}")
    assert "pg_read_all_stats" not in named(examined(url_of(role, url)), "old transactions").text


@pytest.fixture
def on_broken_server(broken_server: OwnServer) -> Iterator[tuple[Database, StatementText]]:
    with connected(broken_server.url) as given:
        yield given


def test_a_forgotten_prepared_transaction_is_named(broken_server: OwnServer, on_broken_server: tuple[Database, StatementText]) -> None:
    """It belongs to no session, and outlives even a restart of the server."""
    with psycopg.connect(broken_server.url, autocommit=True) as connection:
        connection.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'move-42'")
        found = old(on_broken_server)
        connection.execute("ROLLBACK PREPARED 'move-42'")
    assert any("the prepared transaction move-42 of postgres" in text and "ROLLBACK PREPARED" in text for text in found), found


def test_what_holds_back_another_database_is_left_alone(broken_server: OwnServer, on_broken_server: tuple[Database, StatementText]) -> None:
    """Dead rows of this one are cleaned away all the same. Nor is it a matter that the look itself takes place in a transaction."""
    elsewhere = broken_server.server.database("template1")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'move-43'")
        with open_transaction(elsewhere, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1"):
            found = old(on_broken_server)
        connection.execute("ROLLBACK PREPARED 'move-43'")
    assert found == ["none is older than 0s"]


@contextmanager
def standby(server: OwnServer, needed: int | None, replication: str = "true") -> Iterator[pq.PGconn]:
    """What a standby says to the server: where it begins, and which is the oldest transaction whose rows it still needs."""
    ((position,),) = server.execute("SELECT pg_current_wal_flush_lsn()::text")
    connection = pq.PGconn.connect(f"{server.url}?replication={replication}&application_name=far".encode())
    started = connection.exec_(f"START_REPLICATION PHYSICAL {position}".encode())
    assert started.status == pq.ExecStatus.COPY_BOTH, connection.error_message
    if needed is not None:
        connection.put_copy_data(b"h" + struct.pack("!qIIII", 0, needed, 0, 0, 0))
        connection.flush()
    wait_for(server, f"SELECT 1 FROM pg_stat_replication WHERE backend_xmin IS {'NULL' if needed is None else 'NOT NULL'}")
    try:
        yield connection
    finally:
        connection.finish()
        wait_for(server, "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_replication)")


@pytest.mark.parametrize("replication", ["true", "database"])
def test_a_standby_with_a_long_query_is_named_once_it_is_long(
    broken_server: OwnServer, on_broken_server: tuple[Database, StatementText], monkeypatch: pytest.MonkeyPatch, replication: str
) -> None:
    """Without a slot it holds back cleaning for as long as it is connected. Its session is in no transaction, and so of no age."""
    monkeypatch.setattr("onward.drivers.postgres.upkeep.OLD_TRANSACTIONS", 10)
    ((needed,),) = broken_server.execute("SELECT pg_current_xact_id()::text::bigint")
    with standby(broken_server, needed, replication):
        assert old(on_broken_server) == ["none is older than 0s"]
        for _ in range(10):
            broken_server.execute("SELECT pg_current_xact_id()")
        (found,) = old(on_broken_server)
    assert found.startswith("the standby far (process "), found
    assert "needs rows of 11 transactions ago" in found


def test_a_standby_and_a_slot_that_need_no_old_rows_are_left_alone(
    broken_server: OwnServer, on_broken_server: tuple[Database, StatementText]
) -> None:
    """A copy of the log that somebody keeps is nothing that a claim could be slow for."""
    broken_server.execute("SELECT pg_create_physical_replication_slot('archive')")
    try:
        with standby(broken_server, None):
            assert old(on_broken_server) == ["none is older than 0s"]
    finally:
        broken_server.execute("SELECT pg_drop_replication_slot('archive')")


MANY_PAGES = "CREATE TABLE many AS SELECT repeat(md5(number::text), 100) AS text FROM generate_series(1, 1000) AS number"


@pytest.fixture
def many_pages(broken_server: OwnServer) -> Iterator[str]:
    """A table that takes a while to be walked through."""
    broken_server.execute(MANY_PAGES)
    yield "many"
    broken_server.execute("DROP TABLE many")


def test_a_vacuum_is_no_old_transaction(
    broken_server: OwnServer, on_broken_server: tuple[Database, StatementText], many_pages: str
) -> None:
    """It is the cleaning itself, may take hours, and holds back none. To end it would be the worst advice."""
    with psycopg.connect(broken_server.url, autocommit=True) as cleaner:
        cleaner.execute("SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1")

        def clean() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                cleaner.execute(f"VACUUM {many_pages}".encode())

        thread = threading.Thread(target=clean)
        thread.start()
        try:
            holds = f"SELECT 1 FROM pg_stat_activity WHERE pid = {cleaner.info.backend_pid} AND backend_xmin IS NOT NULL"
            wait_for(broken_server, f"{holds} AND pid IN (SELECT pid FROM pg_stat_progress_vacuum)")
            found = old(on_broken_server)
        finally:
            cleaner.cancel()
            thread.join()
    assert found == ["none is older than 0s"]


def test_what_the_server_does_by_itself_is_no_old_transaction(
    broken_server: OwnServer, on_broken_server: tuple[Database, StatementText], many_pages: str
) -> None:
    """It gives way to whoever needs the table, begins again by itself, and nobody is to end it."""
    often = "autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0, autovacuum_vacuum_threshold = 2000000000"
    slowly = "autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1"
    broken_server.execute(f"ALTER TABLE {many_pages} SET ({often}, {slowly})")
    broken_server.execute("ALTER SYSTEM SET autovacuum = on")
    broken_server.execute("ALTER SYSTEM SET autovacuum_naptime = 1")
    broken_server.execute("SELECT pg_reload_conf()")
    try:
        at_work = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND backend_xmin IS NOT NULL"
        wait_for(broken_server, f"{at_work} AND datname = current_database() AND query LIKE '%ANALYZE public.{many_pages}'")
        found = old(on_broken_server)
    finally:
        broken_server.execute("ALTER SYSTEM SET autovacuum = off")
        broken_server.execute("ALTER SYSTEM RESET autovacuum_naptime")
        broken_server.execute("SELECT pg_reload_conf()")
    assert found == ["none is older than 0s"]


def test_a_slot_of_a_standby_that_lags_is_named(broken_server: OwnServer, on_broken_server: tuple[Database, StatementText]) -> None:
    """A standby that was switched off holds back cleaning for ever."""
    # What a standby says of the oldest transaction that it still needs, before it goes away.
    ((needed, position),) = broken_server.execute("SELECT pg_current_xact_id()::text::bigint, pg_current_wal_flush_lsn()::text")
    standby = pq.PGconn.connect(f"{broken_server.url}?replication=true".encode())
    standby.exec_(b"CREATE_REPLICATION_SLOT lagging PHYSICAL")
    standby.exec_(f"START_REPLICATION SLOT lagging PHYSICAL {position}".encode())
    standby.put_copy_data(b"h" + struct.pack("!qIIII", 0, needed, 0, 0, 0))
    standby.flush()
    wait_for(broken_server, "SELECT 1 FROM pg_replication_slots WHERE xmin IS NOT NULL")
    standby.finish()
    wait_for(broken_server, "SELECT 1 FROM pg_replication_slots WHERE NOT active")
    burn = f"DO $$ BEGIN FOR one IN 1..{OLD_TRANSACTIONS} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
    broken_server.execute(burn)
    found = old(on_broken_server, timedelta(minutes=5))
    broken_server.execute("SELECT pg_drop_replication_slot('lagging')")
    assert any("the replication slot lagging (not in use) needs rows of 100,0" in text for text in found), found


def test_a_table_of_dead_rows_is_named(url: str, tables: PostgresTables) -> None:
    """Claims walk over them."""
    tables.run("ALTER TABLE {prefix}history SET (autovacuum_enabled = off)")
    tables.run(
        "INSERT INTO {prefix}history (job_id, fence, attempt, outcome, finished_at) "
        "SELECT number::text, 1, 1, 'failed', now() FROM generate_series(1, 100001) AS number"
    )
    assert "dead rows" not in {one.name for one in examined(url)}
    tables.run("DELETE FROM {prefix}history")
    found = named(examined(url), "dead rows")
    assert (found.level, '"onward".history holds 100,001 dead rows' in found.text) == ("warning", True), found
    assert "never cleaned" in found.text
    tables.run(found.text.rpartition("then ")[2])
    assert "dead rows" not in {one.name for one in examined(url)}


def test_a_table_that_is_never_cleaned_is_named(postgres_databases: Callable[[str], Databases]) -> None:
    """Somebody has switched it off for a large import, and forgotten it. On a server that cleans by itself, which not every one does."""
    url = postgres_databases("postgres-wheel").create()
    assert named(examined(url, migrate=True), "autovacuum").level == "ok"
    PostgresTables(url).run("ALTER TABLE {prefix}jobs SET (autovacuum_enabled = on)")
    assert named(examined(url), "autovacuum").level == "ok"
    PostgresTables(url).run("ALTER TABLE {prefix}jobs SET (autovacuum_enabled = off)")
    found = named(examined(url), "autovacuum")
    assert (found.level, found.text.partition(": ")[2]) == ("warning", 'ALTER TABLE "onward".jobs RESET (autovacuum_enabled)')
    postgres_databases("postgres-wheel").drop(url)


def test_a_server_that_does_not_count_is_named(broken_server: OwnServer) -> None:
    """Then nobody knows where dead rows are."""
    broken_server.execute("ALTER SYSTEM SET autovacuum = on")
    broken_server.execute("ALTER SYSTEM SET track_counts = off")
    broken_server.execute("SELECT pg_reload_conf()")
    wait_for(broken_server, "SELECT 1 WHERE current_setting('track_counts') = 'off'")
    try:
        found = named(examined(broken_server.url), "autovacuum")
    finally:
        broken_server.execute("ALTER SYSTEM SET autovacuum = off")
        broken_server.execute("ALTER SYSTEM RESET track_counts")
        broken_server.execute("SELECT pg_reload_conf()")
    assert (found.level, "set track_counts = on" in found.text) == ("warning", True)


LONG_QUEUES = """
INSERT INTO {prefix}jobs (
    id, type, queue, priority, status, payload, payload_hash, scheduled_at, max_attempts, created_at, updated_at
)
SELECT number::text, 'work', (SELECT string_agg(md5(number::text || part), '') FROM generate_series(1, 50) AS part), 0,
    'queued', 'null', '', now(), 3, now(), now()
FROM generate_series(1, 5000) AS number
"""
"""Names that cannot be compressed make an index large with few rows."""


def test_an_index_that_is_much_larger_than_its_entries_is_named(url: str, tables: PostgresTables) -> None:
    """It keeps the size of the worst day for ever."""
    tables.run(LONG_QUEUES)
    tables.run("VACUUM ANALYZE {prefix}jobs")
    tables.run("DELETE FROM {prefix}jobs WHERE id <> '1'")
    tables.run("VACUUM ANALYZE {prefix}jobs")
    found = named(examined(url), "index size")
    assert found.level == "warning"
    assert re.search(r"jobs_claim takes \d+\.\d MB for 1 entries", found.text), found
    tables.run("REINDEX INDEX CONCURRENTLY {prefix}jobs_claim")
    assert named(examined(url), "index size").level == "ok"


def test_indexes_that_are_too_large_only_together_are_named(url: str, tables: PostgresTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them may be small, and there are a dozen."""
    monkeypatch.setattr(upkeep, "LARGE_INDEXES", 512 * 1024)
    fill_history(tables)
    assert named(examined(url), "index size").level == "ok"
    tables.run("DELETE FROM {prefix}history WHERE job_id <> '1'")
    tables.run("VACUUM (ANALYZE, TRUNCATE off) {prefix}history")
    found = named(examined(url), "index size")
    assert found.level == "warning"
    assert re.search(r"^all indexes take \d\.\d MB for \d entries, more than 3 times what they need", found.text), found
    tables.run('REINDEX SCHEMA CONCURRENTLY "onward"')
    found = named(examined(url), "index size")
    assert (found.level, "MB in all" in found.text) == ("ok", True), found


def test_a_table_that_is_much_larger_than_its_rows_is_named(url: str, tables: PostgresTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks for space is to find it."""
    monkeypatch.setattr(upkeep, "LARGE_TABLE", 256 * 1024)
    fill_history(tables)
    assert named(examined(url), "table size").level == "ok"
    tables.run("DELETE FROM {prefix}history WHERE job_id NOT IN ('1', '5000')")
    tables.run("VACUUM (ANALYZE, TRUNCATE off) {prefix}history")
    found = named(examined(url), "table size")
    assert found.level == "warning"
    assert re.search(r'^"onward".history takes \d\.\d MB, and its 2 rows need 0\.0 MB', found.text), found
    tables.run(found.text.partition("; ")[2].partition(" gives")[0])
    assert named(examined(url), "table size").level == "ok"


def fill_history(tables: PostgresTables) -> None:
    tables.run("ALTER TABLE {prefix}history SET (autovacuum_enabled = off)")
    tables.run(
        "INSERT INTO {prefix}history (job_id, fence, attempt, outcome, finished_at) "
        "SELECT number::text, 1, 1, 'failed', now() FROM generate_series(1, 10000) AS number"
    )
    tables.run("VACUUM ANALYZE {prefix}history")
