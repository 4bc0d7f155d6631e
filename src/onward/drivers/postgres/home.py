"""Where a store's tables are, so that a caller's connection to other tables of the same names is noticed before a job lands there."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from onward.drivers.sql.statements import Row


class Place(Struct, frozen=True):
    """Which tables a connection finds. No host name, alias or role counts: they may lead anywhere, and several lead to one place."""

    store: str | None
    """What the first migration drew by lot. A copy of the tables brings it along."""
    database: str
    """Another than the original's in a copy on the same server."""
    started: str | None
    """When the server began to run: another moment on a server that has a copy under the same name. None where a standby was asked."""
    shown: str
    """For people."""

    def is_that_of(self, other: Place) -> bool:
        """Say whether what is written in one is seen in the other."""
        is_same_server = self.started == other.started or None in (self.started, other.started)
        return (self.store, self.database) == (other.store, other.database) and is_same_server

    def beside(self, other: Place) -> tuple[str, str]:
        """Name both, so that a person can tell one from the other."""
        if self.shown != other.shown:
            return self.shown, other.shown
        if self.store != other.store:
            return f"{self.shown} (store {self.store})", f"{other.shown} (store {other.store})"
        return f"{self.shown} (server started {self.started})", f"{other.shown} (server started {other.started})"


class Home:
    """The place that the store's own connections lead to. ``look`` gives the row of the statement ``place`` on one of them."""

    def __init__(self, look: Callable[[], Row]) -> None:
        self._look = look
        self._place: Place | None = None

    @property
    def is_known(self) -> bool:
        """True when ``place`` need not ask the server."""
        return self._place is not None

    def place(self) -> Place:
        """The place as it was seen last, which is looked at once in a process. Raises ``StoreUnavailable`` and its kin."""
        if self._place is None:
            self._place = read_place(self._look())
        return self._place

    def is_at(self, place: Place) -> bool:
        """Look again, and say whether it is ``place`` now: a database may have been renamed, a server started anew."""
        self._place = read_place(self._look())
        return self._place.is_that_of(place)


def read_place(row: Row) -> Place:
    """Read a row of the statement ``place``, whose first column is the clock and whose last one the transaction."""
    return Place(*row[1:5])
