"""What the Postgres store does around an operation on a caller's connection, whichever library it is from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from onward.drivers.borrowed import commits_by_itself, ended_inside, leads_elsewhere
from onward.drivers.postgres.home import Home, Place, read_place
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
from onward.drivers.sql.joined import Elsewhere, Link
from onward.drivers.sql.placeholders import dollar, pyformat
from onward.drivers.sql.rows import read_instant
from onward.drivers.sql.statements import Operation, Row, Statement
from onward.errors import NoTransaction, SchemaOutOfDate, StoreError

T = TypeVar("T")
as_pyformat = lru_cache(maxsize=1024)(pyformat)
as_dollar = lru_cache(maxsize=1024)(dollar)

# What libpq calls the states of a connection; psycopg and psycopg2 both give these numbers.
IDLE, IN_TRANSACTION, UNKNOWN = 0, 2, 4
UTF8 = "UTF8"


class Joined(Struct, frozen=True):
    """What a link needs of the store."""

    statements: Mapping[str, str]
    """With ``:name`` parameters."""
    now: Callable[[], datetime] | None
    """The clock that counts in place of the database's; only a test has one."""
    url: str
    schema: str
    home: Home
    """Where the store's tables are."""


class PostgresLink(Link):
    """Names joined by a + are asked for together: they are sent as one where the library can, and the last one's rows count."""

    joined: Joined
    _transaction: str | None = None
    """That of the last operation."""

    def check_state(self, state: int, *, is_autocommit: bool) -> None:
        """Raise ``NoTransaction`` unless the connection is in a transaction, or begins one by itself. One that has failed will say so."""
        if state == UNKNOWN:
            raise NoTransaction("the connection given as within= is closed")
        if state == IDLE and is_autocommit:
            raise commits_by_itself(self.how_to_begin)

    @property
    @abstractmethod
    def encoding(self) -> str:
        """In which the server speaks to the client now."""

    def whole(self, make: Callable[[datetime], Operation[T]], held: str | None = None) -> Operation[T]:
        return self._in_utf8(self._in_savepoint(make, held))

    def reading(self, operation: Operation[T]) -> Operation[T]:
        return self._in_utf8(self._at_home(operation))

    def hold(self) -> Operation[str | None]:
        return self._transaction
        yield

    def is_home(self, place: Place) -> bool:
        return self.joined.home.is_at(place)

    def _in_utf8(self, operation: Operation[T]) -> Operation[T]:
        """Any text can be sent and read meanwhile. A rollback, also to a savepoint of before, brings back the caller's encoding."""
        theirs = self.encoding
        if theirs == UTF8:
            return (yield from operation)
        yield Statement("client_encoding", {"encoding": UTF8})
        try:
            result = yield from operation
        except GeneratorExit:
            raise
        except BaseException:
            with suppress(Exception):  # nothing works in a transaction that has failed
                yield Statement("client_encoding", {"encoding": theirs})
            raise
        yield Statement("client_encoding", {"encoding": theirs})
        return result

    def _in_savepoint(self, make: Callable[[datetime], Operation[T]], held: str | None) -> Operation[T]:
        try:
            now = self._arrive((yield Statement("savepoint+place")), held)
            result = yield from make(now)
        except GeneratorExit:
            raise
        except BaseException:
            with suppress(Exception):  # the connection may be lost
                yield Statement("undo_savepoint+release_savepoint")
            raise
        yield Statement("release_savepoint")
        return result

    def _at_home(self, operation: Operation[T]) -> Operation[T]:
        self._arrive((yield Statement("place")))
        return (yield from operation)

    def _arrive(self, rows: list[Row], held: str | None = None) -> datetime:
        """See in the rows of ``place`` whether it is the right transaction in the right database; give the time."""
        (row,) = rows
        self._transaction = row[-1]
        if held not in (None, self._transaction):
            raise ended_inside()
        place = read_place(row)
        if not self.joined.home.place().is_that_of(place):
            raise Elsewhere(place)
        return read_instant(row[0]) if self.joined.now is None else self.joined.now()

    def explain(self, error: Exception) -> Exception:
        if isinstance(error, Elsewhere):
            return self._explain_place(error.place)
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

    def _explain_place(self, place: Place) -> NoTransaction:
        theirs, ours = place.beside(self.joined.home.place())
        return leads_elsewhere(theirs, ours)

    def texts(self, name: str) -> list[str]:
        """The statements of a name."""
        return [self.joined.statements[one] for one in name.split("+")]
