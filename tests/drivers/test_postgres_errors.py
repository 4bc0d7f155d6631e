"""What Postgres and its libraries raise, in Onward's words."""

from __future__ import annotations

from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from sqlalchemy.exc import OperationalError

from onward.drivers.postgres.vendor_errors import is_connection_lost, is_refusal, is_vendor_error, sqlstate_of, text_of, translate
from onward.errors import InvalidPayload, NoTransaction, OnwardError, SchemaOutOfDate, StoreBusy, StoreUnavailable, ValueRefused

PLACE = "postgresql://shop"
errors = psycopg.errors


@pytest.mark.parametrize(
    ("error", "becomes", "says"),
    [
        (errors.UndefinedTable("relation"), SchemaOutOfDate, "onward migrate"),
        (errors.InvalidSchemaName("schema"), SchemaOutOfDate, "onward migrate"),
        (errors.LockNotAvailable("lock"), StoreBusy, "lock_timeout"),
        (errors.QueryCanceled("cancelled"), StoreBusy, "statement_timeout"),
        (errors.DeadlockDetected("deadlock"), StoreBusy, "waited for each other"),
        (errors.SerializationFailure("failure"), StoreBusy, "try again"),
        (errors.InFailedSqlTransaction("aborted"), NoTransaction, "roll back first"),
        (errors.NoActiveSqlTransaction("none"), NoTransaction, "begin one first"),
        (errors.CheckViolation("check"), ValueRefused, "cannot be stored"),
        (errors.UntranslatableCharacter("character"), ValueRefused, "cannot be stored"),
        (psycopg.DataError("cannot contain NUL (0x00) bytes"), ValueRefused, "NUL"),
        (ValueError("A string literal cannot contain NUL (0x00) characters."), ValueRefused, "NUL"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), InvalidPayload, "surrogate"),
        (errors.DiskFull("disk"), StoreUnavailable, "free some space"),
        (errors.OutOfMemory("memory"), StoreUnavailable, "out of memory"),
        (errors.TooManyConnections("connections"), StoreUnavailable, "max_connections"),
        (errors.ReadOnlySqlTransaction("read-only"), StoreUnavailable, "standby"),
        (errors.InsufficientPrivilege("privilege"), StoreUnavailable, "grant"),
        (errors.InvalidPassword("password"), StoreUnavailable, "refused the log-in"),
        (errors.InvalidCatalogName('database "x" does not exist'), StoreUnavailable, "create the database"),
        (errors.AdminShutdown("terminating"), StoreUnavailable, "is the server running"),
        (psycopg.OperationalError("connection refused"), StoreUnavailable, "is the server running"),
        (ConnectionResetError("reset"), StoreUnavailable, "is the server running"),
        (TimeoutError(), StoreBusy, "did not answer"),
        (errors.SyntaxError("syntax"), StoreUnavailable, "syntax"),
    ],
)
def test_each_error_says_what_to_do(error: Exception, becomes: type[OnwardError], says: str) -> None:
    """One line, and the place, but no vendor's class."""
    told = translate(error, PLACE)
    assert type(told) is becomes
    assert says in str(told)
    assert "\n" not in str(told)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.DeadlockDetected("x"), "40P01"),
        (asyncpg.DeadlockDetectedError("x"), "40P01"),
        (psycopg.OperationalError("x"), None),
        (asyncpg.InterfaceError("x"), None),
        (psycopg2.OperationalError("x"), None),
        (OperationalError("SELECT", None, errors.DeadlockDetected("x")), "40P01"),
    ],
)
def test_the_sqlstate_is_found_in_each_library(error: Any, state: str | None) -> None:
    """Also inside an error that wraps the library's."""
    assert sqlstate_of(error) == state


def test_psycopg2s_sqlstate_is_that_of_the_server(postgres: Any) -> None:
    """Its class has none; only an error that came from the server carries it."""
    connection = psycopg2.connect(postgres.url)
    with connection.cursor() as cursor, pytest.raises(psycopg2.Error) as raised:
        cursor.execute("SELECT 1 / 0")
    assert sqlstate_of(raised.value) == "22012"
    assert text_of(raised.value) == "division by zero"
    assert is_refusal(raised.value)
    connection.close()


def test_a_lost_connection_is_told_from_a_refusal_of_the_server() -> None:
    """After the one a commit may have happened; the other is an answer."""
    assert is_connection_lost(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert is_connection_lost(asyncpg.ConnectionDoesNotExistError("connection was closed"))
    assert is_connection_lost(psycopg2.InterfaceError("connection already closed"))
    assert not is_connection_lost(errors.LockNotAvailable("lock"))
    assert not is_connection_lost(RuntimeError("of the application"))


def test_an_error_of_the_application_is_not_ours() -> None:
    """Only what a library or the network raised is translated."""
    assert not is_vendor_error(RuntimeError("of the application"))
    assert is_vendor_error(asyncpg.InterfaceError("another operation is in progress"))
    assert is_vendor_error(OSError("unreachable"))


def test_only_the_first_line_is_repeated() -> None:
    """The lines behind it may hold values of rows, and errors end in logs."""
    assert text_of(RuntimeError("null value in column\nDETAIL: Failing row contains (secret)")) == "null value in column"
    assert len(text_of(RuntimeError("x" * 5000))) == 200


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('connection failed: FATAL: password authentication failed for user "pwd"', "check the user and the password"),
        ("connection failed: fe_sendauth: no password supplied", "PGPASSWORD"),
        ('connection failed: FATAL: role "nobody" does not exist', "check the user and the password"),
        ('connection failed: FATAL: database "nodb" does not exist', "create the database"),
        ("connection failed: Connection refused", "is the server running"),
    ],
)
def test_a_refused_log_in_is_told_as_what_it_is(text: str, told: str) -> None:
    """Libpq gives no SQLSTATE for it, and a server that answered is running."""
    assert told in str(translate(psycopg.OperationalError(text), "postgresql://h/d"))
