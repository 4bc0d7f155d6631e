"""What Postgres libraries raise becomes Onward's: one clear line that says what happened and what to do.

It goes by the SQLSTATE, which psycopg, psycopg2 and asyncpg all carry, so none of them is imported here.
"""

from __future__ import annotations

import re

from onward.errors import (
    InvalidPayload,
    InvalidSetting,
    NoTransaction,
    OnwardError,
    SchemaOutOfDate,
    StoreBusy,
    StoreUnavailable,
    ValueRefused,
)

LIBRARIES = frozenset({"psycopg", "psycopg2", "asyncpg"})
LONGEST_TEXT = 200

SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
FAILED_TRANSACTION, NO_TRANSACTION = "25P02", "25P01"
MISSING_TABLES = frozenset({"42P01", "3F000", "42703", "42883"})
BUSY = {
    "55P03": "waited for a lock for longer than lock_timeout",
    "57014": "was stopped after statement_timeout, or by hand",
    SERIALIZATION_FAILURE: "met another transaction that changed the same rows",
    DEADLOCK: "was one of two transactions that waited for each other",
}
FULL = {
    "53100": "the disk of the server is full: free some space",
    "53200": "the server is out of memory: lower what its connections may use, or use fewer of them",
    "53300": "the server takes no more connections: raise max_connections, or use fewer processes or a pooler",
}
REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|is not permitted to log in|permission denied for database"
    r"|role .* does not exist|no such user"
)
NO_DATABASE = re.compile(r"database .* does not exist|no such database")
MISSPELT = re.compile(r"invalid [\w ]*(?:value|port number)\b|bad value for \w+|definition of service .* not found")
"""What is said of a log-in, and of a connection string, has no SQLSTATE in libpq, so its words have to do."""
_CONNECTION_STATES = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE that the server gave, whichever library raised; None for what did not come from the server.

    Looks through an error that wraps the library's, as those of SQLAlchemy and Django do.
    """
    seen: BaseException | None = error
    while seen is not None:
        state = getattr(seen, "sqlstate", None) or getattr(seen, "pgcode", None)
        if isinstance(state, str):
            return state
        seen = getattr(seen, "orig", None) or seen.__cause__
    return None


def is_vendor_error(error: BaseException) -> bool:
    """True when a Postgres library raised it, or the network beneath one."""
    return isinstance(error, OSError | UnicodeEncodeError | OverflowError) or bool(_libraries(error))


def is_connection_lost(error: BaseException) -> bool:
    """True when the connection is of no more use, or there is none; what it was doing has an unknown outcome if that was a commit."""
    state = sqlstate_of(error)
    if state is not None:
        return state.startswith("08") or state in _CONNECTION_STATES
    return isinstance(error, OSError) or bool(_names(error) & {"OperationalError", "InterfaceError"} and _libraries(error))


def is_refusal(error: BaseException) -> bool:
    """True when it is a value that cannot be stored, so that trying again cannot help, and leaving the value out can."""
    state = sqlstate_of(error)
    if state is not None:
        return state.startswith("22") or (state.startswith("23") and state != "23505") or state == "54000"
    if isinstance(error, OverflowError | UnicodeEncodeError):
        return True
    # psycopg refuses NUL with a DataError that has no SQLSTATE, psycopg2 with a ValueError; asyncpg refuses a type with a DataError.
    return "DataError" in _names(error) or (isinstance(error, ValueError) and "NUL" in str(error))


def translate(error: BaseException, place: str) -> OnwardError:
    """Say in Onward's words what went wrong at ``place``, which is safe to print. Nothing was stored, unless it was a commit."""
    state, text = sqlstate_of(error), text_of(error)
    if isinstance(error, UnicodeEncodeError):
        return InvalidPayload("text contains a lone surrogate, which no database stores")
    if state == FAILED_TRANSACTION:
        return NoTransaction(
            "the transaction has failed already, so nothing can join it: roll back first, or to a savepoint before the error"
        )
    if state == NO_TRANSACTION:
        return NoTransaction(f"the connection is in no transaction ({text}): begin one first")
    if state in MISSING_TABLES:
        return SchemaOutOfDate(f"{place} does not have the tables of this Onward ({text}): give the right database, or run onward migrate")
    if state in BUSY:
        return StoreBusy(f"a statement at {place} {BUSY[state]} ({text}): nothing was stored; keep transactions short, and try again")
    if isinstance(error, TimeoutError):
        return StoreBusy(f"{place} did not answer within the time that its connection allows: keep transactions short, and try again")
    if is_refusal(error):
        return ValueRefused(f"a value cannot be stored ({text})")
    return _unavailable(error, state, text, place)


def _unavailable(error: BaseException, state: str | None, text: str, place: str) -> OnwardError:
    if state in FULL:
        return StoreUnavailable(f"{place}: {FULL[state]} ({text})")
    if state == "25006":
        return StoreUnavailable(f"{place} takes no writes here ({text}): is it a standby, or was the transaction begun as READ ONLY?")
    if state == "42501":
        return StoreUnavailable(f"the role of the connection may not do this at {place} ({text}): grant it what onward migrate used")
    if (state is not None and state.startswith("28")) or (state is None and REFUSED.search(text)):
        return _lasting(f"{place} refused the log-in ({text}): check the user and the password, in the URL, PGPASSWORD or ~/.pgpass")
    if state == "3D000" or (state is None and NO_DATABASE.search(text)):
        return _lasting(f"{place}: {text}: create the database, or give the right name")
    if state is None and MISSPELT.search(text):
        return InvalidSetting(f"{place} cannot be used: {text}")
    if is_connection_lost(error):
        return StoreUnavailable(f"the connection to {place} failed ({text}): is the server running, and is the address right?")
    return StoreUnavailable(f"{place}: {text}")


def _lasting(text: str) -> StoreUnavailable:
    error = StoreUnavailable(text)
    error.is_lasting = True
    return error


def text_of(error: BaseException) -> str:
    """The first line of an error: the lines behind it may hold values of rows."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    text = primary or str(error).strip() or type(error).__name__
    return str(text).splitlines()[0][:LONGEST_TEXT]


def _names(error: BaseException) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in type(error).__mro__)


def _libraries(error: BaseException) -> frozenset[str]:
    return LIBRARIES.intersection(kind.__module__.partition(".")[0] for kind in type(error).__mro__)
