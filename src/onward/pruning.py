"""Which finished jobs are past their retention, and where to look for them. Rules without I/O: a store looks, and deletes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from onward.errors import InvalidDefinition
from onward.inspection import Retention
from onward.spelling import did_you_mean, shown
from onward.status import FINAL, Status

PAGE = 1000
"""Rows that are looked at together."""
LARGEST_PAGE = 32 * PAGE
MARGIN = timedelta(seconds=10)
"""A job's instant is older than the commit that stores it, so as much as this is looked at again."""
INSTANT = timedelta(microseconds=1)


class Ended(Struct, frozen=True):
    """As much of a finished job as its retention asks for."""

    id: str
    type: str
    queue: str
    finished_at: datetime
    age: timedelta
    """How long ago it finished."""


class Look(Struct, frozen=True):
    """Which finished jobs to look at: those of this status and at least this old, from ``since`` on, the oldest first."""

    status: Status
    age: timedelta
    since: datetime | None = None
    limit: int = PAGE


class Due(Struct, frozen=True):
    """Finished jobs that may go. One that has been retried and finished later than ``upto`` is not meant."""

    status: Status
    upto: datetime
    ids: tuple[str, ...]


class Gone(Struct, frozen=True):
    """What became of them."""

    count: int = 0
    held: float = 0.0
    """Seconds for which others had to wait; what was waited for others does not count."""


class Keeping:
    """How long each finished job is kept, by its status, its type and its queue.

    ``names`` are those under which jobs of this application are stored, each with the name of its definition. None stands for all: then
    no type is unknown. Raises ``InvalidDefinition`` for a type of ``Retention(types=...)`` that the application does not have.
    """

    def __init__(self, retention: Retention, names: Mapping[str, str] | None = None) -> None:
        self.retention = retention
        self._names = names
        if names is not None:
            for name in retention.types:
                if name not in names:
                    raise InvalidDefinition(f"Retention(types=...): no job is called {shown(name)}{did_you_mean(name, sorted(names))}")
        self._by_name = {self._name(name): kept for name, kept in retention.types.items()}

    def age(self, status: Status, type_: str, queue: str) -> timedelta | None:
        """How long such a job is kept; None until a person deletes it. The type counts before the queue, and that before the rest.

        A type that the application does not know may be another application's, which keeps it longer.
        """
        kept = self.retention.age(status, self._by_name.get(self._name(type_)), self.retention.queues.get(queue))
        if self._names is None or type_ in self._names:
            return kept
        unknown = self.retention.unknown
        return None if kept is None or unknown is None else max(kept, unknown)

    def ages(self, status: Status) -> list[timedelta]:
        """The different ages at which jobs of this status go, the shortest first."""
        retention = self.retention
        types, queues = (None, *retention.types.values()), (None, *retention.queues.values())
        ages = {age for type_ in types for queue in queues if (age := retention.age(status, type_, queue)) is not None}
        if self._names is not None and retention.unknown is not None:
            ages |= {max(age, retention.unknown) for age in ages}
        return sorted(ages)

    def _name(self, stored: str) -> str:
        return stored if self._names is None else self._names.get(stored, stored)


class Walk:
    """Goes through the finished jobs of a store in rounds, and remembers how far it came, so that a long-kept job is not passed each time.

    Jobs of one age are past it in the order in which they finished. So there is a place for each age: whatever finished before that was
    looked at when it was as old. A round goes on from there, and ends where nothing is old enough.
    """

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self._lanes = [(status, age) for status in sorted(FINAL) for age in keeping.ages(status)]
        self._since: dict[tuple[Status, timedelta], datetime] = {}
        self._left: list[tuple[Status, timedelta]] = []
        self._limit = PAGE

    def begin(self) -> None:
        """Begin a round."""
        self._left = list(self._lanes)
        self._limit = PAGE

    def forget(self) -> None:
        """Let the next round begin at the oldest again: jobs that somebody held were passed."""
        self._since.clear()

    @property
    def look(self) -> Look | None:
        """What to look at next; None where the round is over."""
        if not self._left:
            return None
        status, age = lane = self._left[0]
        return Look(status, age, self._since.get(lane), self._limit)

    def due(self, rows: Sequence[Ended]) -> Due | None:
        """Those of the rows of this look that are past their retention; None where none is."""
        status = self._left[0][0]
        kinds: dict[tuple[str, str], timedelta | None] = {}
        due = []
        for row in rows:
            kind = row.type, row.queue
            if kind not in kinds:
                kinds[kind] = self._keeping.age(status, *kind)
            kept = kinds[kind]
            if kept is not None and row.age >= kept:
                due.append(row.id)
        return Due(status, rows[-1].finished_at, tuple(due)) if due else None

    def move(self, rows: Sequence[Ended], deleted: int) -> None:
        """Go on behind the rows of this look, of which so many are gone."""
        lane, since = self._left[0], self._since.get(self._left[0])
        if len(rows) < self._limit:
            if rows:
                now = rows[-1].finished_at + rows[-1].age
                past = now - lane[1] - MARGIN
                self._since[lane] = past if since is None else max(since, past)
            self._left.pop(0)
            if not rows and since is None:  # where none is as old as this, none is older
                self._left = [one for one in self._left if one[0] is not lane[0]]
            self._limit = PAGE
            return
        last = rows[-1].finished_at
        if since != last or deleted:
            self._since[lane] = last
            self._limit = PAGE if since != last else self._limit
        elif self._limit < LARGEST_PAGE:
            self._limit *= 2  # more finished in one instant than fit into a look, and all of them are kept
        else:
            self._since[lane] = last + INSTANT
            self._limit = PAGE


def strange_queues(retention: Retention, known: Iterable[str]) -> list[str]:
    """What to say of queues that ``Retention(queues=...)`` names and no job is declared for; an enqueue may name them all the same."""
    known = sorted(set(known))
    return [
        f"Retention(queues=...): no job of this application is declared for queue {shown(name)}{did_you_mean(name, known)}"
        for name in retention.queues
        if name not in known
    ]
