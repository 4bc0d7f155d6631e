"""A role or a database with settings of its own: they belong to the application, and change nothing of what Onward does or says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from onward.clock import FakeClock, SystemClock
from onward.drivers import connect
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.statement_text import SYNTAX, StatementText
from onward.inspection import Finding
from onward.testing.conformance import (  # noqa: F401 - the suite's classes run here over a store of an odd role
    TestCancel,
    TestDuplicates,
    TestEnding,
    TestExpiry,
    TestFind,
    TestOrder,
    TestPrune,
    TestQuestions,
    TestRetry,
    TestSweep,
    TestTransaction,
)
from onward.testing.factories import make_new_job
from tests.drivers.tables import PostgresTables
from tests.postgres_databases import Databases

ODD = {
    "quote_all_identifiers": "on",
    "DateStyle": "German",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-5",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "off",
    "bytea_output": "escape",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "lc_messages": "POSIX",
    "lc_numeric": "POSIX",
    "client_min_messages": "debug1",
    "default_transaction_deferrable": "on",
    "plan_cache_mode": "force_generic_plan",
}
PLAIN = {"search_path": "pg_catalog", "quote_all_identifiers": "off", "DateStyle": "ISO", "IntervalStyle": "postgres", "TimeZone": "UTC"}
"""By which two databases can be described alike."""
SHADOWED = ("shadow", "pg_catalog", "public")
SHADOWS = """
CREATE SCHEMA shadow;
DO $make$
DECLARE known record;
BEGIN
    FOR known IN SELECT proname, oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN ({names}) LOOP
        BEGIN
            EXECUTE format(
                'CREATE FUNCTION shadow.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', known.proname,
                pg_get_function_identity_arguments(known.oid), pg_get_function_result(known.oid),
                format('BEGIN RAISE EXCEPTION %L; END', known.proname || ' is not that of Postgres')
            );
        EXCEPTION WHEN OTHERS THEN  -- arguments of any type cannot be written so
            NULL;
        END;
    END LOOP;
END
$make$;
CREATE DOMAIN shadow.timestamptz AS pg_catalog.timestamptz CHECK (false);
CREATE DOMAIN shadow.json AS pg_catalog.json CHECK (false);
CREATE DOMAIN shadow.text AS pg_catalog.text CHECK (false)
"""
"""A schema with functions and types of the same names, each of which refuses to be used."""
TEXTS = StatementText("onward", notify=True)
_LITERAL = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")


def functions() -> set[str]:
    """Every function that a statement calls, without a schema."""
    return {name for text in TEXTS.raw.values() for name in re.findall(r"\b([a-z_0-9]+)\(", _LITERAL.sub("''", text))} - SYNTAX


def set_for_everybody(url: str, settings: dict[str, str], path: tuple[str, ...] = ()) -> None:
    name = sql.Identifier(urlsplit(url).path[1:])
    with psycopg.connect(url, autocommit=True) as connection:
        for setting, value in settings.items():
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.Identifier(setting), value))
        if path:
            schemas = sql.SQL(", ").join(map(sql.Identifier, path))
            connection.execute(sql.SQL("ALTER DATABASE {} SET search_path = {}").format(name, schemas))


def make_shadows(url: str) -> None:
    PostgresTables(url).run(SHADOWS.replace("{names}", ", ".join(f"'{name}'" for name in sorted(functions()))))


def examined(url: str) -> dict[str, list[Finding]]:
    """What is complained of, by its name."""
    store = connect(url, clock=SystemClock())
    try:
        found = store.examine()
    finally:
        store.close()
    names = ("schema", "schema drift", "search path", "jobs")
    return {name: [one for one in found if one.name == name and one.level != "ok"] for name in names}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="module")
def odd_database(postgres_databases: Callable[[str], Databases]) -> Iterator[str]:
    """Everything is set as nobody would, and a schema with functions of Postgres's names comes first. The tables are made afterwards."""
    url = postgres_databases("postgres").create()
    make_shadows(url)
    set_for_everybody(url, ODD, SHADOWED)
    yield url
    postgres_databases("postgres").drop(url)


@pytest.fixture
def store(odd_database: str, clock: FakeClock) -> Iterator[PostgresStore]:
    """Asked for by the suite's tests."""
    tables = PostgresTables(odd_database)
    store = connect(odd_database, clock=clock, migrate=True)
    assert isinstance(store, PostgresStore)
    store.open()
    for name in ("jobs", "keys", "history"):
        tables.run(f"DELETE FROM {{prefix}}{name}")
    yield store
    store.close()


def test_every_function_is_named_with_its_schema(postgres: Any) -> None:
    """An application may put a schema with a now() of its own first, to move the time in its tests, and join its transaction."""
    known = {row[0] for row in postgres.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace")}
    assert {"statement_timestamp", "to_char", "pg_notify", "count"} <= functions() <= known
    bare = re.compile(r"(?<!pg_catalog\.)\b([a-z_0-9]+)\(|(?<!pg_catalog\.)\b(text|timestamptz|json|uuid|regclass)\b")
    found = {name: bare.findall(_LITERAL.sub("''", text)) for name, text in TEXTS.raw.items()}
    assert {name: calls for name, calls in found.items() if [one for one in calls if one[0] not in SYNTAX]} == {}


def test_tables_that_were_made_under_odd_settings_are_those_of_everybody(
    odd_database: str, store: PostgresStore, postgres_databases: Callable[[str], Databases]
) -> None:
    """A type or an operator that came from elsewhere would stay in them for ever."""
    url = postgres_databases("postgres").create()
    plain = connect(url, clock=FakeClock(), migrate=True)
    plain.open()
    plain.close()
    alike = "?options=" + "%20".join(f"-c{name}%3D{value}" for name, value in PLAIN.items())
    made = [PostgresTables(one + alike).catalog() for one in (url, odd_database)]
    postgres_databases("postgres").drop(url)
    assert made[0] == made[1]


def test_the_time_is_the_servers_whatever_an_application_calls_its_functions(odd_database: str, store: PostgresStore) -> None:
    """A statement_timestamp() of a test's own, that stands still, must not date the jobs of everybody."""
    real = connect(odd_database, clock=SystemClock())
    clock = "SELECT pg_catalog.clock_timestamp()"
    with psycopg.connect(odd_database) as caller:
        caller.execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'")
        (before,) = caller.execute(clock).fetchone() or ()
        with caller.transaction():
            (joined,) = real.within(caller).enqueue([make_new_job()])
        (own,) = real.enqueue([make_new_job()])
        (after,) = caller.execute(clock).fetchone() or ()
    created = [real.get(one.id).created_at for one in (joined, own)]
    real.close()
    assert before <= min(created) <= max(created) <= after


@pytest.mark.parametrize("setting", [*ODD, "all of them"])
def test_no_setting_is_taken_for_drift(postgres_database: str, setting: str) -> None:
    """The catalogs are described by the session's settings; a doctor that complains of sound tables is not listened to."""
    store = connect(postgres_database, clock=SystemClock(), migrate=True)
    store.open()
    store.close()
    set_for_everybody(postgres_database, ODD if setting == "all of them" else {setting: ODD[setting]})
    assert examined(postgres_database)["schema drift"] == []


def test_a_schema_before_that_of_postgres_is_not_taken_for_drift(odd_database: str, store: PostgresStore) -> None:
    """The model is made by the same rules as the tables were."""
    found = examined(odd_database)
    assert (found["schema"], found["schema drift"], found["jobs"]) == ([], [], [])


def test_an_operator_before_that_of_postgres_is_named(postgres_database: str) -> None:
    """It is the one thing that statements find by the search path."""
    store = connect(postgres_database, clock=SystemClock(), migrate=True)
    store.open()
    store.close()
    tables = PostgresTables(postgres_database)
    tables.run(
        "CREATE SCHEMA plain; CREATE SCHEMA compat; "
        "CREATE FUNCTION compat.differ(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'; "
        "CREATE OPERATOR compat.= (LEFTARG = text, RIGHTARG = text, FUNCTION = compat.differ)"
    )
    assert examined(postgres_database)["search path"] == []
    set_for_everybody(postgres_database, {}, ("compat", "public"))
    assert examined(postgres_database)["search path"] == []
    set_for_everybody(postgres_database, {}, ("plain", "compat", "pg_catalog", "public"))
    (found,) = examined(postgres_database)["search path"]
    assert (found.level, found.text.startswith("compat comes"), "put pg_catalog first" in found.text) == ("error", True, True), found
