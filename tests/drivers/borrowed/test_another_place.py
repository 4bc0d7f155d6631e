"""Callers on Postgres: what is another place than the store's, whatever it is called, and what is the same one by another way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from onward.driver import Store
from onward.drivers.postgres.home import Place
from onward.errors import NoTransaction
from onward.testing.factories import make_new_job
from tests.drivers.borrowed.callers import Asyncpg, Caller, Psycopg, Psycopg2, PsycopgAsync
from tests.drivers.borrowed.conftest import Database
from tests.drivers.borrowed.test_another_store import name_of, opened, place_of
from tests.drivers.pooler import Pooler
from tests.drivers.tables import PostgresTables
from tests.postgres_server import Server
from tests.postgres_wheel import OwnServer

OF_EACH_LIBRARY = (Psycopg, PsycopgAsync, Psycopg2, Asyncpg)

PATIENCE = 20.0


# -- copies ----------------------------------------------------------------------------------------------------


def refused(store: Store, place: dict[str, Any], kind: type[Caller] = Psycopg) -> str:
    """What a caller is told whose connection leads to ``place``."""
    caller = kind(place)
    try:
        caller.begin()
        with pytest.raises(NoTransaction, match="no transaction spans both") as told:
            caller.enqueue(store, make_new_job())
        caller.rollback()
    finally:
        caller.close()
    return str(told.value)


def accepts(store: Store, place: dict[str, Any], kind: type[Caller] = Psycopg) -> bool:
    """Whether a job of a caller whose connection leads to ``place`` arrives in the store."""
    caller = kind(place)
    try:
        caller.begin()
        (accepted,) = caller.enqueue(store, make_new_job())
        caller.commit()
    finally:
        caller.close()
    return store.get(accepted.id).id == accepted.id


def test_a_copy_under_another_name_is_refused(postgres: Server, postgres_database: str) -> None:
    """A database that was restored or made of a template brings along what tells one store from another."""
    opened(postgres_database).close()
    name = name_of(postgres_database)
    postgres.execute(f'CREATE DATABASE "{name}_copy" TEMPLATE "{name}"')
    try:
        with closing(opened(postgres_database)) as store:
            told = refused(store, place_of(postgres.database(f"{name}_copy")))
        assert f"{name}_copy at " in told
    finally:
        postgres.execute(f'DROP DATABASE "{name}_copy" WITH (FORCE)')


def test_a_copy_under_the_same_name_on_another_server_is_refused(postgres_database: str, find_postgres: Callable[[str], Server]) -> None:
    """As where a test system is a restored backup of the real one."""
    name, elsewhere = name_of(postgres_database), find_postgres("postgres-wheel")
    elsewhere.execute(f'CREATE DATABASE "{name}"')
    try:
        with closing(opened(postgres_database)) as store:
            there = elsewhere.database(name)
            opened(there).close()
            ((identity,),) = PostgresTables(postgres_database).rows("SELECT identity FROM {prefix}schema_version WHERE version = 1")
            PostgresTables(there).run(f"UPDATE {{prefix}}schema_version SET identity = '{identity}'")
            for kind in OF_EACH_LIBRARY:
                told = refused(store, place_of(there), kind)
                assert str(place_of(there)["port"]) in told
    finally:
        elsewhere.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_what_a_standby_says_of_its_server_does_not_count() -> None:
    """A pooler may ask a standby for what only reads, and the writes go to the same database all the same."""
    ours = Place("a", "app", "2026-01-01", "app at one")
    assert ours.is_that_of(Place("a", "app", "2026-01-01", "app at another name"))
    assert ours.is_that_of(Place("a", "app", None, "app at a standby"))
    assert Place("a", "app", None, "app at a standby").is_that_of(ours)
    assert not ours.is_that_of(Place("a", "app", "2026-01-02", "app at one"))
    assert not ours.is_that_of(Place("b", "app", "2026-01-01", "app at one"))
    assert not ours.is_that_of(Place("a", "copy", "2026-01-01", "copy at one"))


def test_two_places_that_look_alike_are_told_apart_in_words() -> None:
    """Through a tunnel or a socket every server has the same address."""
    assert Place("a", "app", "1", "app").beside(Place("b", "app", "1", "app")) == ("app (store a)", "app (store b)")
    assert Place("a", "app", "1", "app").beside(Place("a", "app", "2", "app")) == ("app (server started 1)", "app (server started 2)")
    assert Place("a", "app", "1", "app").beside(Place("b", "copy", "2", "copy")) == ("app", "copy")


# -- the same place by another way -----------------------------------------------------------------------------


def test_names_of_hosts_and_roles_do_not_matter(postgres: Server, postgres_database: str) -> None:
    """What counts is where the connection leads."""
    role = f"{name_of(postgres_database)}_role"
    postgres.execute(f'CREATE ROLE "{role}" LOGIN SUPERUSER')
    try:
        with closing(opened(postgres_database)) as store:
            assert accepts(store, {**place_of(postgres_database), "user": role, "host": "localhost"})
    finally:
        postgres.execute(f'DROP ROLE "{role}"')


def test_the_name_that_a_pooler_has_for_a_database_does_not_matter(postgres_database: str) -> None:
    """An alias leads to the same tables."""
    with closing(opened(postgres_database)) as store, Pooler(postgres_database, "transaction") as pooler:
        alias = urlunsplit(urlsplit(pooler.url)._replace(path="/alias"))
        assert accepts(store, place_of(alias))


class Movable(Pooler):
    """One that is told to lead to another database."""

    def let_go(self) -> None:
        """Close the connections to the server; none is lent."""
        while self._idle:
            self._idle.pop().close()

    def leads_to(self, url: str) -> None:
        self._server = url


def rename(postgres: Server, before: str, after: str) -> None:
    """Rename a database, which nobody may be in, whoever an earlier test has left there."""
    until = time.monotonic() + PATIENCE
    while True:
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [before])
        try:
            postgres.execute(f'ALTER DATABASE "{before}" RENAME TO "{after}"')
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def test_a_database_that_is_renamed_beneath_a_pooler_stays_the_same(postgres: Server, postgres_database: str) -> None:
    """The store looks again before it refuses; what it had seen is not true any more."""
    name = name_of(postgres_database)
    with Movable(postgres_database, "transaction") as pooler, closing(opened(pooler.url)) as store:
        assert accepts(store, place_of(postgres_database))
        pooler.let_go()
        rename(postgres, name, f"{name}_renamed")
        try:
            pooler.leads_to(postgres.database(f"{name}_renamed"))
            for kind in OF_EACH_LIBRARY:
                assert accepts(store, place_of(postgres.database(f"{name}_renamed")), kind)
        finally:
            pooler.let_go()
            store.close()
            rename(postgres, f"{name}_renamed", name)


@pytest.mark.parametrize("kind", OF_EACH_LIBRARY)
def test_tables_that_were_made_anew_are_the_stores_own(postgres_database: str, kind: type[Caller]) -> None:
    """A test system drops them beneath what is running."""
    with closing(opened(postgres_database)) as store:
        assert accepts(store, place_of(postgres_database), kind)
        PostgresTables(postgres_database).run("DROP SCHEMA onward CASCADE")
        opened(postgres_database).close()
        assert accepts(store, place_of(postgres_database), kind)


def test_a_server_that_was_started_again_is_the_same_one(private_postgres: OwnServer) -> None:
    """As after an upgrade or a fail-over; the application and the store each connect anew."""
    with closing(opened(private_postgres.url)) as store:
        assert accepts(store, place_of(private_postgres.url))
        private_postgres.restart()
        assert accepts(store, place_of(private_postgres.url))


def test_a_script_that_was_run_by_hand_makes_stores_that_differ(postgres_database: str) -> None:
    """Whoever prints it once and runs it in two places has two stores."""
    first, second = (PostgresTables(postgres_database, schema) for schema in ("first", "second"))
    for tables in (first, second):
        with closing(tables.store()) as store:
            tables.run(store.migration_sql())
        with closing(tables.store()) as store:
            assert accepts(store, place_of(postgres_database))
    query = "SELECT identity FROM {prefix}schema_version WHERE version = 1"
    assert first.rows(query) != second.rows(query)


def test_the_proof_costs_no_round_trip(postgres_here: Database) -> None:
    """A savepoint, the id, the row, the savepoint's end: four, as it takes without."""

    class Counting(psycopg.Connection[Any]):
        exchanges = 0

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            self.exchanges += 1
            return super().wait(gen, *arguments, **options)

    with Counting.connect(**postgres_here.place) as connection:  # type: ignore[arg-type]
        connection.execute("SELECT 1")
        before = connection.exchanges
        postgres_here.store.within(connection).enqueue([make_new_job()])
        assert connection.exchanges - before == 4
