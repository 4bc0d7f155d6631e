"""The store's own transaction on Postgres in an application's hands: no commit or rollback inside it goes unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from onward.clock import SystemClock
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.postgres.url import read_url
from onward.errors import OnwardError, StoreUnavailable, TransactionOpen
from onward.inspection import JobFilter
from onward.testing.factories import make_new_job

Use = Callable[[Any], object]


@pytest.fixture
def store(emptied_postgres: Callable[[str], str]) -> Iterator[PostgresStore]:
    conninfo, options = read_url(emptied_postgres("postgres"))
    store = PostgresStore(conninfo, clock=SystemClock(), migrate=True, **options)
    with store.transaction() as connection:
        connection.execute("DROP TABLE IF EXISTS public.mine")
        connection.execute("CREATE TABLE public.mine (x integer)")
    yield store
    store.close()


def rows(store: PostgresStore) -> list[int]:
    with store.transaction() as connection:
        return [x for (x,) in connection.execute("SELECT x FROM public.mine ORDER BY x")]


REFUSED: dict[str, Use] = {
    "COMMIT": lambda connection: connection.execute("COMMIT"),
    "a comment before": lambda connection: connection.execute("-- done\n /* x */ end transaction"),
    "ROLLBACK of a cursor": lambda connection: connection.cursor().execute("ROLLBACK"),
    "BEGIN": lambda connection: connection.execute("BEGIN"),
    "composed": lambda connection: connection.execute(sql.SQL("COMMIT AND {}").format(sql.SQL("CHAIN"))),
    "bytes": lambda connection: connection.execute(b"COMMIT"),
    "rows of another kind": lambda connection: connection.cursor(row_factory=dict_row).execute("COMMIT"),
    "binary": lambda connection: connection.cursor(binary=True).execute("COMMIT"),
    "for each": lambda connection: connection.cursor().executemany("COMMIT", [()]),
    "streamed": lambda connection: list(connection.cursor().stream("COMMIT")),
    "commit()": lambda connection: connection.commit(),
    "rollback()": lambda connection: connection.rollback(),
    "close()": lambda connection: connection.close(),
    "with": lambda connection: connection.__enter__(),
}


@pytest.mark.parametrize("end", REFUSED.values(), ids=REFUSED)
def test_what_would_end_it_is_not_run(store: PostgresStore, end: Use) -> None:
    """A commit in the middle would tear the job from its data, and nobody would notice."""
    with store.transaction() as connection:
        connection.execute("INSERT INTO public.mine VALUES (1)")
        with pytest.raises(TransactionOpen, match="with"):
            end(connection)
        store.within(connection).enqueue([make_new_job()])
    assert (rows(store), store.count(JobFilter())) == ([1], 1)


def test_savepoints_and_everything_else_are_the_applications_own(store: PostgresStore) -> None:
    """Functions hold COMMITs and ENDs of their own; a savepoint undoes a part, and ends nothing."""
    with store.transaction() as connection:
        connection.execute("/* a hint */ SELECT CASE WHEN true THEN 1 /* no */ END -- a case\n")
        connection.execute("SAVEPOINT a")
        connection.execute("INSERT INTO public.mine VALUES (1)")
        connection.execute(sql.SQL("ROLLBACK TO SAVEPOINT {}").format(sql.Identifier("a")))
        connection.execute("RELEASE a; INSERT INTO public.mine VALUES (2)")
        with connection.transaction():
            connection.execute(b"DO $$ BEGIN INSERT INTO public.mine VALUES (3); END $$")
        with suppress(psycopg.errors.DivisionByZero), connection.transaction():
            connection.execute("INSERT INTO public.mine SELECT 1 / 0")
        with connection.pipeline():
            connection.execute("INSERT INTO public.mine VALUES (4)")
            connection.execute("INSERT INTO public.mine VALUES (5)")
        with connection.cursor("named", row_factory=dict_row) as cursor:
            assert cursor.execute("SELECT x FROM public.mine ORDER BY x").fetchone() == {"x": 2}
        with connection.cursor().copy("COPY public.mine FROM STDIN") as copy:
            copy.write_row([6])
        connection.cursor().executemany("INSERT INTO public.mine VALUES (%s)", [(7,), (8,)])
        store.within(connection).enqueue([make_new_job()])
    assert (rows(store), store.count(JobFilter())) == ([2, 3, 4, 5, 6, 7, 8], 1)


ENDING: dict[str, Use] = {
    "behind another statement": lambda connection: connection.execute("INSERT INTO public.mine VALUES (2); COMMIT"),
    "behind nothing": lambda connection: connection.execute("; COMMIT"),
    "comments in comments": lambda connection: connection.execute("/* /* x */ */ COMMIT"),
    "another class of cursors": lambda connection: psycopg.ClientCursor(connection).execute("COMMIT"),
    "a factory of cursors": lambda connection: (setattr(connection, "cursor_factory", psycopg.Cursor), connection.execute("COMMIT")),
    "a method of the class": lambda connection: psycopg.Connection.commit(connection),
    "a rollback": lambda connection: connection.execute("; ROLLBACK"),
    "in a pipeline": lambda connection: _in_pipeline(connection),
    "a cursor of psycopg": lambda connection: psycopg.Cursor(connection).execute("ROLLBACK"),
    "before an error": lambda connection: connection.execute("; COMMIT; SELECT 1 / 0"),
}


def _in_pipeline(connection: Any) -> None:
    with connection.pipeline():
        psycopg.Cursor(connection).execute("COMMIT")


@pytest.mark.parametrize("end", ENDING.values(), ids=ENDING)
def test_what_has_ended_it_is_told_at_once_and_nothing_is_stored_behind_it(store: PostgresStore, end: Use) -> None:
    """Outside of a transaction each further statement would commit by itself. Whoever swallows the error meets it again at the end."""
    with pytest.raises(TransactionOpen, match="was ended inside its block"), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        with pytest.raises((TransactionOpen, psycopg.errors.DivisionByZero)):
            end(connection)
        for use in (
            lambda: connection.execute("INSERT INTO public.mine VALUES (9)"),
            lambda: psycopg.ClientCursor(connection).execute("INSERT INTO public.mine VALUES (9)"),
            lambda: store.within(connection).enqueue([make_new_job()]),
        ):
            with pytest.raises(TransactionOpen, match="was ended inside its block"):
                use()
    assert 9 not in rows(store)
    assert store.count(JobFilter()) == 0
    assert store.enqueue([make_new_job()])[0].is_new


UNSEEN: dict[str, Use] = {
    "chained": lambda connection: psycopg.ClientCursor(connection).execute("COMMIT AND CHAIN"),
    "begun anew": lambda connection: connection.execute("INSERT INTO public.mine VALUES (1); COMMIT; BEGIN"),
    "rolled back and begun anew": lambda connection: connection.execute("; ROLLBACK; BEGIN"),
    "beneath psycopg": lambda connection: connection.pgconn.exec_(b"COMMIT; BEGIN"),
    "beneath psycopg, in two steps": lambda connection: (connection.pgconn.exec_(b"COMMIT"), connection.pgconn.exec_(b"BEGIN")),
}


@pytest.mark.parametrize("end", UNSEEN.values(), ids=UNSEEN)
def test_another_transaction_in_its_place_is_never_committed_as_if_it_were_the_first(store: PostgresStore, end: Use) -> None:
    """The server says which transaction it is."""
    with pytest.raises(TransactionOpen, match="was ended inside its block"), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        end(connection)
        connection.execute("INSERT INTO public.mine VALUES (9)")
        store.within(connection).enqueue([make_new_job()])
    assert 9 not in rows(store)
    assert store.count(JobFilter()) == 0
    assert store.enqueue([make_new_job()])[0].is_new


def test_a_commit_beneath_psycopg_that_is_the_last_thing_is_told(store: PostgresStore) -> None:
    """Then there is nothing left to commit."""
    with pytest.raises(TransactionOpen, match="was ended inside its block"), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("INSERT INTO public.mine VALUES (1)")
        connection.pgconn.exec_(b"COMMIT")
    assert rows(store) == [1]


def test_a_connection_that_was_lost_inside_has_committed_nothing(store: PostgresStore) -> None:
    """Its outcome is known: the commit was never sent."""
    with pytest.raises(OnwardError) as told, store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("INSERT INTO public.mine VALUES (1)")
        connection.pgconn.finish()
    assert isinstance(told.value, StoreUnavailable)
    assert rows(store) == []


def test_an_error_that_was_swallowed_is_not_committed_as_success(store: PostgresStore) -> None:
    """Postgres rolls such a transaction back, whoever asks it to commit."""
    with pytest.raises(OnwardError, match="nothing was stored"), store.transaction() as connection:  # noqa: PT012 - a transaction is its block
        connection.execute("INSERT INTO public.mine VALUES (1)")
        with suppress(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
    assert rows(store) == []
