"""Runs operations on a connection that belongs to the caller, whichever library it is from.

A backend gives a table: the full name of a connection's class → how to use it. Nothing is imported to look a connection up, so no
library is loaded that the application has not loaded itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct

from onward.errors import NoTransaction

T = TypeVar("T")


class Bridge(Struct, frozen=True):
    """How connections of one class are used."""

    colour: Literal["sync", "async"]
    join: Callable[..., Any]
    """Makes a ``Within`` or an ``AsyncWithin`` of the connection."""


def find_bridge(connection: Any, bridges: Mapping[str, Bridge], colour: Literal["sync", "async"]) -> Bridge:
    """Say how to use this connection. Raises ``NoTransaction`` when it cannot carry a job."""
    for kind in type(connection).__mro__:
        bridge = bridges.get(f"{kind.__module__}.{kind.__qualname__}")
        if bridge is None:
            continue
        if bridge.colour != colour:
            raise NoTransaction(_wrong_colour(connection, bridge.colour))
        return bridge
    known = ", ".join(sorted({name.split(".")[0] for name in bridges}))
    raise NoTransaction(f"within= was given {_name(connection)}, which this store cannot join: it takes connections of {known}")


def _wrong_colour(connection: Any, colour: str) -> str:
    if colour == "async":
        return f"within= was given {_name(connection)}, whose calls are awaited: use the async verb, such as await app.aenqueue(...)"
    return f"within= was given {_name(connection)}, which is synchronous: use the sync verb, such as app.enqueue(...)"


def _name(connection: Any) -> str:
    return f"a {type(connection).__module__}.{type(connection).__qualname__}"
