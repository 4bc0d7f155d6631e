"""The values with which a store is looked at and kept tidy: filters, the six standing questions, findings, retention."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from msgspec import Struct

from onward.durations import parse_duration
from onward.errors import InvalidDefinition, InvalidTime
from onward.status import Status


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs. Every field narrows; an empty one does not."""

    statuses: tuple[Status, ...] = ()
    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    key: str | None = None
    owner: str | None = None
    """Only jobs of this owner. None sees all."""
    finished_after: datetime | None = None


class Retention:
    """How long final jobs are kept after they finished: ``Retention(completed="7d")``. None keeps them until a person deletes them.

    ``rollups`` is how long the counts of each minute are kept, which outlive the jobs.

    Raises ``InvalidDefinition`` for what is no duration.
    """

    def __init__(
        self,
        *,
        completed: timedelta | float | str | None = "7d",
        cancelled: timedelta | float | str | None = "7d",
        dead_letter: timedelta | float | str | None = None,
        rollups: timedelta | float | str | None = "90d",
    ) -> None:
        self.completed = _read_age("completed", completed)
        self.cancelled = _read_age("cancelled", cancelled)
        self.dead_letter = _read_age("dead_letter", dead_letter)
        self.rollups = _read_age("rollups", rollups)

    def by_status(self) -> dict[Status, timedelta]:
        """Which final statuses are pruned at all, and after how long."""
        kept = {Status.COMPLETED: self.completed, Status.CANCELLED: self.cancelled, Status.DEAD_LETTER: self.dead_letter}
        return {status: age for status, age in kept.items() if age is not None}


STUCK_AFTER = timedelta(minutes=5)
"""How long a running job without a time limit may run before it is called stuck."""

Question: TypeAlias = Literal["outstanding", "failed", "stuck", "durations", "duplicates", "last-hour"]
QUESTIONS: tuple[Question, ...] = ("outstanding", "failed", "stuck", "durations", "duplicates", "last-hour")


class Answer(Struct, frozen=True):
    """The answer to one of the six standing questions, as a table."""

    question: Question
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]


class Finding(Struct, frozen=True):
    """One thing that ``onward doctor`` looked at."""

    name: str
    level: Literal["ok", "warning", "error"]
    text: str


def _read_age(status: str, age: timedelta | float | str | None) -> timedelta | None:
    try:
        return None if age is None else parse_duration(age)
    except InvalidTime as error:
        raise InvalidDefinition(f"Retention({status}=...): {error}") from None
