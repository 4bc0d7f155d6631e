"""Tables of one release under code of another: older, newer, made by hand, and changed beneath a store that is running."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers.postgres import migrate as postgres_migrate
from onward.drivers.sql.migrations import fill_in, load_migrations
from onward.drivers.sqlite import migrate as sqlite_migrate
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import SchemaOutOfDate
from onward.inspection import JobFilter, Retention
from onward.limit import Limit
from onward.outcome import DeadLettered, Retried
from onward.status import Status
from onward.testing.conformance.steps import (
    OTHER,
    PAST_LEASE,
    bring_to,
    claim_everything,
    claim_one,
    enqueue,
    is_settled,
    settle,
    start_alone,
)
from onward.testing.factories import make_new_job
from tests.drivers.tables import PostgresTables, SQLiteTables, Tables, everything

FIRST = "1"
HARMLESS = """
BEGIN;
ALTER TABLE {prefix}jobs ADD COLUMN region TEXT;
CREATE INDEX jobs_of_a_region ON {prefix}jobs (region) WHERE region IS NOT NULL;
INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (999, '2099-01-01T00:00:00Z', 1);
COMMIT;
"""
"""A later release has added something that this one need not know."""
BREAKING = """
BEGIN;
ALTER TABLE {prefix}jobs RENAME TO jobs_of_the_future;
INSERT INTO {prefix}schema_version (version, applied_at, works_with) VALUES (999, '2099-01-01T00:00:00Z', 999);
COMMIT;
"""
"""A later release has changed what this one would misunderstand."""


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], tuple[str, Tables]]:
    """Each call gives the place of tables that are not there yet: a URL, and how to look at them from behind."""
    numbers = itertools.count(1)
    database = request.getfixturevalue("postgres_database") if request.param == "postgres" else ""

    def sqlite() -> tuple[str, Tables]:
        path = tmp_path / f"jobs_{next(numbers)}.db"
        return f"sqlite:///{path}", SQLiteTables(path)

    def postgres() -> tuple[str, Tables]:
        schema = "onward" if (number := next(numbers)) == 1 else f"onward_{number}"
        return f"{database}?schema={schema}", PostgresTables(database, schema)

    return postgres if request.param == "postgres" else sqlite


@pytest.fixture
def tables(fresh: Callable[[], tuple[str, Tables]]) -> Tables:
    return fresh()[1]


@pytest.fixture
def beside(fresh: Callable[[], tuple[str, Tables]]) -> Callable[[], Tables]:
    """Gives other tables of the same kind, to compare with."""
    return lambda: fresh()[1]


@pytest.fixture
def open_store(tables: Tables) -> Iterator[Callable[[], Store]]:
    """Opens a store over the tables, which may be changed for it."""
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(tables.store(migrate=True))
        opened[-1].open()
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def advance(store: Store, by: timedelta) -> None:
    assert isinstance(store.clock, FakeClock)
    store.clock.advance(by)


def statuses(store: Store) -> dict[str, int]:
    found = {status.value: store.count(JobFilter(statuses=(status,))) for status in Status}
    return {status: count for status, count in found.items() if count}


def work_through(store: Store) -> None:
    """Use every verb of a worker and of a person once, each with an answer that shows that it did what it says."""
    before = store.count(JobFilter())
    for status in Status:
        if status is not Status.QUEUED:
            bring_to(store, status, payload={"to": status.value})
    for due in claim_everything(store):
        assert is_settled(settle(store, due))
    asked = enqueue(store, key="once", payload=[1])
    assert store.enqueue([make_new_job(key="once", payload=[1])])[0].id == asked.id
    taken = start_alone(store, claim_one(store))
    assert taken.id == asked.id
    advance(store, PAST_LEASE)
    assert taken.id in {job.id for job in store.sweep(["work"]).requeued}
    assert not is_settled(settle(store, taken))
    for again in claim_everything(store, owner=OTHER):
        assert is_settled(settle(store, again, DeadLettered("hopeless") if again.id == asked.id else Retried(timedelta(days=9), "boom")))
    assert store.history(asked.id)[-1].outcome == "dead_lettered"
    assert store.retry(asked.id).status is Status.QUEUED
    assert store.cancel(asked.id).status is Status.CANCELLED
    later = enqueue(store, delay=timedelta(days=1))
    assert store.run_now(later.id).scheduled_at == store.clock.now()
    with store.transaction() as connection:
        within = store.within(connection)
        (joined,) = within.enqueue([make_new_job(payload="joined")])
    assert store.get(joined.id).payload == '"joined"'
    store.delete(later.id)
    assert len(store.find(JobFilter(), limit=100)) == store.count(JobFilter()) > before
    assert store.answer("outstanding").rows
    advance(store, timedelta(days=30))
    assert store.prune(Retention()) >= 1


# -- the first tables under this code ------------------------------------------------------------------------------------


def test_nothing_in_the_first_tables_is_lost_by_opening_them(tables: Tables, open_store: Callable[[], Store]) -> None:
    """An upgrade that loses a row is noticed when it is too late to go back."""
    tables.load(FIRST)
    before = everything(tables)
    assert len(before["jobs"]) == 9
    store = open_store()
    after = everything(tables)
    assert [row[:3] for row in before.pop("limits")] == [("provider", 2, 1)]
    assert [(one.state.kind, one.state.name, one.state.limit, one.state.is_by_hand) for one in store.limits()] == [
        ("key", "provider", Limit(concurrency=2), True)  # how many run is counted by now
    ]
    del after["limits"]
    assert after == before
    assert statuses(store) == {"queued": 4, "in_progress": 1, "retrying": 1, "completed": 1, "dead_letter": 1, "cancelled": 1}


def test_jobs_of_the_first_tables_are_run_by_this_code(tables: Tables, open_store: Callable[[], Store]) -> None:
    """Whatever its status was, a job goes on from there: due ones now, others when they are due, a dead worker's after its lease."""
    tables.load(FIRST)
    store = open_store()
    assert [one.job.payload for one in claim_everything(store)] == ['{"n":7,"text":"für \'alle\'"}', '{"n":8}']
    (running,) = store.find(JobFilter(statuses=(Status.IN_PROGRESS,), types=("mail",)))
    assert running.attempts == running.fence == 1
    advance(store, PAST_LEASE)
    assert store.sweep(["other"]).unblocked == 1
    assert running.id in {one.id for one in claim_everything(store)}
    advance(store, timedelta(minutes=5))
    assert [one.job.payload for one in claim_everything(store) if one.job.owner == "ada"] == ['{"n":4}']
    advance(store, timedelta(hours=1))
    assert '{"n":9}' in [one.job.payload for one in claim_everything(store)]


def test_keys_and_history_of_the_first_tables_still_hold(tables: Tables, open_store: Callable[[], Store]) -> None:
    """A key that an upgrade forgets lets the same thing be done twice."""
    tables.load(FIRST)
    store = open_store()

    assert not store.enqueue([make_new_job(key="done", scope="forever")])[0].is_new
    assert not store.enqueue([make_new_job(key="again", owner="ada")])[0].is_new
    assert not store.enqueue([make_new_job(key="window", owner="bob", scope=timedelta(hours=1))])[0].is_new
    assert store.enqueue([make_new_job(key="dead")])[0].is_new
    kept = {job.payload: [one.outcome for one in store.history(job.id)] for job in store.find(JobFilter())}
    assert kept['{"n":2}'] == ["dead_lettered"]
    assert kept['{"n":3}'] == ["cancelled"]
    assert kept['{"n":4}'] == ["retried"]


def test_every_verb_works_on_the_first_tables(tables: Tables, open_store: Callable[[], Store]) -> None:
    """They were made for statements that have changed since."""
    tables.load(FIRST)
    work_through(open_store())


def test_the_first_migration_makes_what_it_always_made(tables: Tables, beside: Callable[[], Tables]) -> None:
    """A released migration that is edited leaves two kinds of tables with one number."""
    tables.load(FIRST)
    anew = beside()
    anew.run(fill_in(load_migrations(anew.package)[1], anew.words))
    assert anew.catalog() == tables.catalog()


# -- made by hand ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["nothing", "the first tables"])
def test_the_printed_script_makes_the_same_tables(tables: Tables, beside: Callable[[], Tables], start: str) -> None:
    """Where only a person may change a database, what the person runs must not be almost the same."""
    by_hand = beside()
    if start == "the first tables":
        tables.load(FIRST)
        by_hand.load(FIRST)
    with closing(by_hand.store()) as store:
        script = store.migration_sql()
    by_hand.run(script)
    with closing(tables.store(migrate=True)) as store:
        store.open()
    assert by_hand.catalog() == tables.catalog()
    assert everything(by_hand) == everything(tables)
    versions = "SELECT version, works_with FROM {prefix}schema_version ORDER BY version"
    assert by_hand.rows(versions) == tables.rows(versions)
    with closing(by_hand.store()) as store:
        assert not store.needs_migration()
        store.open()
        assert store.schema_version == max(load_migrations(tables.package))


def test_asking_for_the_script_changes_nothing(tables: Tables) -> None:
    """It is read and discussed first."""
    with closing(tables.store()) as store:
        assert store.needs_migration()
        assert "CREATE TABLE" in store.migration_sql()
        assert store.needs_migration()


def test_a_script_that_is_run_again_changes_nothing(tables: Tables, open_store: Callable[[], Store]) -> None:
    """Somebody always runs it twice, also after the first jobs are there."""
    with closing(tables.store()) as store:
        script = store.migration_sql()
    tables.run(script)
    store = open_store()
    enqueue(store, key="kept")
    before, made = everything(tables), tables.catalog()
    with pytest.raises((sqlite3.Error, psycopg.Error), match="already exists"):
        tables.run(script)
    assert (everything(tables), tables.catalog()) == (before, made)
    assert claim_one(store).job.idempotency_key == "kept"


def test_there_is_nothing_to_print_for_tables_that_are_up_to_date(tables: Tables, open_store: Callable[[], Store]) -> None:
    """A comment, which any shell takes."""
    script = open_store().migration_sql()
    assert "nothing to do" in script
    assert [line for line in script.splitlines() if not line.startswith("--")] == []


# -- newer tables under this code ----------------------------------------------------------------------------------------


def test_a_store_that_is_running_works_on_when_something_is_added_beneath_it(tables: Tables, open_store: Callable[[], Store]) -> None:
    """A release is rolled out while the workers of the last one run."""
    store = open_store()
    work_through(store)
    running = bring_to(store, Status.IN_PROGRESS)
    tables.run(HARMLESS)
    assert is_settled(settle(store, running))
    work_through(store)


def test_a_store_that_opens_newer_tables_works_when_they_allow_it(tables: Tables, open_store: Callable[[], Store]) -> None:
    """A worker of the old release that is restarted in the middle of a roll-out must not stand still until the end of it."""
    open_store()
    tables.run(HARMLESS)
    made = tables.catalog()
    store = open_store()
    assert store.schema_version == 999
    assert not store.needs_migration()
    assert "nothing to do" in store.migration_sql()
    work_through(store)
    assert tables.catalog() == made


def test_tables_that_only_newer_code_may_use_are_refused(tables: Tables, open_store: Callable[[], Store]) -> None:
    """One clear line, and nothing is touched."""
    enqueue(open_store())
    tables.run(BREAKING)
    made = tables.catalog()
    refused: list[Callable[[Store], object]] = [
        lambda store: store.open(),
        lambda store: store.needs_migration(),
        lambda store: store.migration_sql(),
        lambda store: store.enqueue([make_new_job()]),
    ]
    for ask in refused:
        with closing(tables.store(migrate=True)) as store, pytest.raises(SchemaOutOfDate) as told:
            ask(store)
        assert "version 999" in str(told.value)
        assert str(told.value).endswith("knows at least version 999: upgrade Onward")
        assert len(str(told.value).splitlines()) == 1
    assert tables.catalog() == made


def test_a_running_store_that_would_misunderstand_new_tables_changes_nothing(tables: Tables, open_store: Callable[[], Store]) -> None:
    """It does not look at the version again; a migration that breaks old code makes every one of its statements fail."""
    store = open_store()
    running, waiting = bring_to(store, Status.IN_PROGRESS), enqueue(store)
    tables.run(BREAKING)
    tries: list[Callable[[], object]] = [
        lambda: store.enqueue([make_new_job()]),
        lambda: claim_one(store),
        lambda: settle(store, running),
        lambda: start_alone(store, running),
        lambda: store.sweep(["work"]),
        lambda: store.cancel(waiting.id),
        lambda: store.get(waiting.id),
    ]
    for use in tries:
        with pytest.raises(SchemaOutOfDate, match="does not have the tables of this Onward"):
            use()
    rows: dict[str, str] = dict(tables.rows("SELECT id, status FROM {prefix}jobs_of_the_future".replace("{prefix}jobs", _renamed(tables))))
    assert rows == {running.id: "in_progress", waiting.id: "queued"}


def _renamed(tables: Tables) -> str:
    return "jobs" if isinstance(tables, SQLiteTables) else f"{tables.prefix}jobs"


# -- what is not a store -------------------------------------------------------------------------------------------------


def test_tables_of_somebody_else_are_left_alone(tables: Tables) -> None:
    """The application may have had a table of that name for years."""
    tables.make_room()
    tables.run("CREATE TABLE {prefix}jobs (title TEXT)")
    made = tables.catalog()
    with closing(tables.store(migrate=True)) as store, pytest.raises(SchemaOutOfDate, match="jobs that Onward did not make: give"):
        store.open()
    assert tables.catalog() == made


@pytest.mark.parametrize("broken", ["DROP TABLE {prefix}keys", "DELETE FROM {prefix}schema_version"])
def test_half_of_a_store_is_refused(tables: Tables, broken: str) -> None:
    """Of a backup that was restored in part: a store without its keys would accept duplicates."""
    tables.load(FIRST)
    tables.run(broken)
    before = tables.catalog()
    with closing(tables.store(migrate=True)) as store, pytest.raises(SchemaOutOfDate, match="is incomplete: "):
        store.open()
    assert tables.catalog() == before


# -- several at once -----------------------------------------------------------------------------------------------------

MIGRATOR = """
    import sys
    from onward.clock import SystemClock
    from onward.drivers import connect
    print("ready", flush=True)
    for url in sys.stdin:
        store = connect(url.strip(), clock=SystemClock(), migrate=True)
        store.open()
        print(store.schema_version, flush=True)
        store.close()
"""


def test_two_processes_that_migrate_at_once_make_one_set_of_tables(tables: Tables, fresh: Callable[[], tuple[str, Tables]]) -> None:
    """Every worker of a deployment starts at the same moment."""
    newest = max(load_migrations(tables.package))
    with two_processes(MIGRATOR) as both:
        for process in both:
            assert answer_of(process) == "ready"
        for _ in range(20):
            url, made = fresh()
            for process in both:
                tell(process, url)
            assert [answer_of(process) for process in both] == [str(newest)] * 2
            versions = made.rows("SELECT version FROM {prefix}schema_version ORDER BY version")
            assert versions == [(number,) for number in range(1, newest + 1)]


def test_a_version_read_while_another_process_migrates_is_believed(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a reader's look at which tables there are and its look at their version, another process adds tables."""
    tables.load(FIRST)
    looks: list[str] = []

    def before(sql: str) -> None:
        if "max(version)" in sql and not looks:
            looks.append(sql)
            with closing(tables.store(migrate=True)) as other:
                other.open()

    newest = max(load_migrations(tables.package))
    if isinstance(tables, SQLiteTables):
        with closing(sqlite3.connect(tables.path)) as connection:
            connection.set_trace_callback(before)
            store = SQLiteStore(str(tables.path), clock=FakeClock())
            assert sqlite_migrate.version(connection, store.statements, tables.prefix, str(tables.path)) == newest
    else:
        assert isinstance(tables, PostgresTables)
        ask = postgres_migrate._ask

        def asked(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
            before(sql)
            return ask(connection, sql)

        monkeypatch.setattr(postgres_migrate, "_ask", asked)
        with tables.connected() as connection:
            assert postgres_migrate.version(connection, tables.schema) == newest
    assert looks


@contextmanager
def two_processes(code: str) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        yield both
    finally:
        for process in both:
            process.communicate(timeout=60)  # its input is over, and so is it


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def answer_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()
