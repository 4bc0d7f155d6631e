"""Named statements from a ``.sql`` file, and operations: generators that yield statements and receive rows.

An operation does no I/O, so it runs unchanged on our own connection, on a caller's, and on one whose calls are awaited.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from onward.errors import ValueRefused
from onward.steps import drive

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = Mapping[str, Any]


class Statement(Struct):
    """One statement to run, by its name; the operation is sent its rows."""

    name: str
    parameters: Parameters = {}
    rows: int = 0
    """How many rows it stores or looks up, where that may be very many: a slow server is given more time for them."""


class Many(Struct):
    """One statement to run for each of these sets of parameters. On a backend with several writers, the ``id`` of each that stored
    nothing comes back, because another transaction had stored that id in the meantime.
    """

    name: str
    parameters: list[dict[str, Any]]


Operation: TypeAlias = Generator[Statement | Many, list[Row], T]

_OPENING = re.compile(r"^-- name: (\w+)", re.MULTILINE)
_encode = msgspec.json.Encoder().encode


class Cursor(Protocol):
    """As much of a DB-API cursor as an operation needs."""

    def execute(self, sql: str, parameters: Parameters, /) -> Any: ...
    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Any: ...
    def fetchall(self) -> list[Any]: ...


def run(cursor: Cursor, statements: Mapping[str, str], operation: Operation[T]) -> T:
    """Run an operation to its end on a cursor of SQLite, and give what it returns."""

    def execute(wanted: Statement | Many) -> list[Row]:
        if isinstance(wanted, Many):
            cursor.executemany(statements[wanted.name], wanted.parameters)
            return []
        cursor.execute(statements[wanted.name], wanted.parameters)
        return cursor.fetchall()

    return drive(execute, operation)


def load_statements(text: str, **replacements: str) -> dict[str, str]:
    """Read the blocks of a ``.sql`` file: each opens with ``-- name: verb``. ``{word}`` is replaced by the argument of that name."""
    openings = list(_OPENING.finditer(text))
    ends = [one.start() for one in openings[1:]] + [len(text)]
    statements: dict[str, str] = {}
    for opening, end in zip(openings, ends, strict=True):
        lines = text[opening.start() : end].splitlines()
        body = "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip().removesuffix(";")
        for word, value in replacements.items():
            body = body.replace("{" + word + "}", value)
        if opening[1] in statements:
            raise ValueError(f"two statements are called {opening[1]}")
        statements[opening[1]] = body
    return statements


def as_json(rows: Any) -> str:
    """Write a list of values as the one JSON parameter of a statement that works on many rows. Raises ``ValueRefused``."""
    try:
        return _encode(rows).decode()
    except UnicodeEncodeError:  # a lone surrogate: no database stores it, and it must not stop its neighbours
        return _encode(_without_surrogates(rows)).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueRefused(f"a value cannot be stored: it has no form in JSON ({type(error).__name__})") from None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [_without_surrogates(one) for one in value]
    return value
