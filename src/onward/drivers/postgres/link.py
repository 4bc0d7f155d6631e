"""What the Postgres store does around an operation on a caller's connection, whichever library it is from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from onward.drivers.borrowed import commits_by_itself
from onward.drivers.postgres.vendor_errors import (
    DEADLOCK,
    MISSING_TABLES,
    SERIALIZATION_FAILURE,
    is_connection_lost,
    is_refusal,
    is_vendor_error,
    sqlstate_of,
    text_of,
    translate,
)
from onward.drivers.sql.joined import Link
from onward.drivers.sql.placeholders import dollar, pyformat
from onward.drivers.sql.rows import read_instant
from onward.drivers.sql.statements import Operation, Statement
from onward.errors import NoTransaction, SchemaOutOfDate, StoreError

T = TypeVar("T")
as_pyformat = lru_cache(maxsize=1024)(pyformat)
as_dollar = lru_cache(maxsize=1024)(dollar)

# What libpq calls the states of a connection; psycopg and psycopg2 both give these numbers.
IDLE, IN_TRANSACTION, UNKNOWN = 0, 2, 4


class Joined(Struct, frozen=True):
    """What a link needs of the store."""

    statements: Mapping[str, str]
    """With ``:name`` parameters."""
    now: Callable[[], datetime] | None
    """The clock that counts in place of the database's; only a test has one."""
    url: str
    schema: str


class PostgresLink(Link):
    """Names joined by a + are asked for together: they are sent as one where the library can, and the last one's rows count."""

    joined: Joined

    def check_state(self, state: int, *, is_autocommit: bool) -> None:
        """Raise ``NoTransaction`` unless the connection is in a transaction, or begins one by itself. One that has failed will say so."""
        if state == UNKNOWN:
            raise NoTransaction("the connection given as within= is closed")
        if state == IDLE and is_autocommit:
            raise commits_by_itself(self.how_to_begin)

    def whole(self, make: Callable[[datetime], Operation[T]]) -> Operation[T]:
        if self.joined.now is None:
            now = read_instant((yield Statement("savepoint+clock"))[0][0])
        else:
            yield Statement("savepoint")
            now = self.joined.now()
        try:
            result = yield from make(now)
        except GeneratorExit:
            raise
        except BaseException:
            with suppress(Exception):  # the connection may be lost
                yield Statement("undo_savepoint+release_savepoint")
            raise
        yield Statement("release_savepoint")
        return result

    def explain(self, error: Exception) -> Exception:
        state = sqlstate_of(error)
        if state in (SERIALIZATION_FAILURE, DEADLOCK):
            return self.as_raised(error)
        if state in MISSING_TABLES:
            return SchemaOutOfDate(
                f"the connection given as within= sees no tables of this Onward in the schema {self.joined.schema} ({text_of(error)}): run "
                f"onward migrate; if that was done, it is a connection to another database than the store's, which is {self.joined.url}"
            )
        if state is None and is_connection_lost(error):
            return StoreError(f"the connection given as within= cannot be used: {text_of(error)}")
        if is_vendor_error(error) or is_refusal(error):
            return translate(error, self.joined.url)
        return error

    def texts(self, name: str) -> list[str]:
        """The statements of a name."""
        return [self.joined.statements[one] for one in name.split("+")]
