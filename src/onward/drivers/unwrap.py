"""Finds the driver's own connection beneath what SQLAlchemy and Django hand out, in the transaction that they will commit.

Their state stays theirs: nothing here commits, rolls back or flushes. Neither library is imported; who passes one of its objects has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from onward.drivers.borrowed import Colour
from onward.errors import NoTransaction, StoreUnavailable

IN_SQLALCHEMY = 'its engine has isolation_level="AUTOCOMMIT"; use one without'
IN_DJANGO = "wrap the data and the job in 'with transaction.atomic()'"


class Beneath(Struct, frozen=True):
    """A connection that a library of its own looks after."""

    connection: Any
    """The driver's own."""
    advice: str
    """How a transaction is begun there."""
    as_raised: Callable[[Exception], Exception]
    """Makes of the driver's error the one that the library would have raised, so that a caller's loop of tries catches it."""


class Owner(Struct, frozen=True):
    """How objects of one class are unwrapped."""

    colour: Colour
    unwrap: Callable[[Any], Any]
    """Gives a ``Beneath``, awaited where the colour is async. Raises ``NoTransaction`` or ``StoreUnavailable``."""


def _of_session(session: Any) -> Beneath:
    return _unwrapped(lambda: _of_connection(session.connection()))


def _of_connection(connection: Any) -> Beneath:
    return _unwrapped(lambda: _of_sqlalchemy(connection))


def _of_sqlalchemy(connection: Any) -> Beneath:
    if not connection.in_transaction():
        connection.begin()  # as its own execute() would; else its commit() would do nothing
    own = connection.connection.driver_connection
    if connection.dialect.driver == "asyncpg" and not own.is_in_transaction():
        connection.exec_driver_sql("SELECT 1")  # only the first statement really begins

    def as_raised(error: Exception) -> Exception:
        wrapped: Exception = sys.modules["sqlalchemy.exc"].DBAPIError.instance(
            "a statement of Onward", None, error, Exception, hide_parameters=True, dialect=connection.dialect
        )
        return wrapped

    return Beneath(own, IN_SQLALCHEMY, as_raised)


def _unwrapped(unwrap: Callable[[], Beneath]) -> Beneath:
    known = sys.modules["sqlalchemy.exc"]
    try:
        return unwrap()
    except known.DBAPIError as error:
        raise StoreUnavailable(f"the connection given as within= cannot begin a transaction: {_first_line(error.orig)}") from error
    except known.SQLAlchemyError as error:
        raise NoTransaction(f"what was given as within= is in no transaction: {_first_line(error)}") from error


async def _of_async(session_or_connection: Any, unwrap: Callable[[Any], Beneath]) -> Beneath:
    known = sys.modules["sqlalchemy.exc"]
    try:
        beneath: Beneath = await session_or_connection.run_sync(unwrap)
    except known.SQLAlchemyError as error:  # an AsyncConnection that was never entered
        raise NoTransaction(f"what was given as within= is in no transaction: {_first_line(error)}") from error
    return beneath


def _of_django(wrapper: Any) -> Beneath:
    if getattr(wrapper, "vendor", None) is None:  # a proxy of another kind, such as a cache
        raise NoTransaction("within= takes a database connection of Django: django.db.connection, or one of django.db.connections")
    if wrapper.needs_rollback:
        raise NoTransaction("the atomic block that the job would join is to be rolled back: an error inside it was caught; leave it first")
    if wrapper.connection is None:
        raise NoTransaction(f"the connection given as within= is in no transaction: {IN_DJANGO}")

    def as_raised(error: Exception) -> Exception:
        try:
            with wrapper.wrap_database_errors:
                raise error
        except Exception as wrapped:  # noqa: BLE001 - it is what is asked for
            return wrapped

    return Beneath(wrapper.connection, IN_DJANGO, as_raised)


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


OWNERS: Mapping[str, Owner] = {
    "sqlalchemy.engine.base.Connection": Owner("sync", _of_connection),
    "sqlalchemy.orm.session.Session": Owner("sync", _of_session),
    "sqlalchemy.orm.scoping.scoped_session": Owner("sync", lambda scoped: _of_session(scoped())),
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": Owner("async", lambda connection: _of_async(connection, _of_connection)),
    "sqlalchemy.ext.asyncio.session.AsyncSession": Owner("async", lambda session: _of_async(session, _of_session)),
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": Owner("async", lambda scoped: _of_async(scoped(), _of_session)),
    "django.utils.connection.ConnectionProxy": Owner("sync", _of_django),
    "django.db.backends.base.base.BaseDatabaseWrapper": Owner("sync", _of_django),
}
