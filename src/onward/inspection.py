"""The values with which a store is looked at and kept tidy: filters, the six standing questions, findings, retention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from onward.breaker import BreakerState
from onward.definition import check_name
from onward.durations import parse_duration
from onward.errors import InvalidDefinition, InvalidTime
from onward.limit import LimitState
from onward.spelling import shown
from onward.status import FINAL, Status, Verb, is_legal


class Queue(Struct, frozen=True, kw_only=True):
    """A queue as a person sees it: one that is paused, or has jobs that are not done with."""

    name: str
    paused_at: datetime | None = None
    """Since when no job of it is claimed."""
    waiting: int = 0
    """Jobs that are queued or retrying, whenever they are due."""
    in_progress: int = 0


MOST_COUNTED = 10_000
"""Waiting jobs of one key: more are not counted, however many they are."""


IDLE_FOR = timedelta(days=1)
"""How long the row of a closed breaker, or of a key's limit, is kept that nobody needs: it says what holds without it, too."""


class KnownBreaker(Struct, frozen=True, kw_only=True):
    """A breaker as a person sees it."""

    state: BreakerState
    waiting: int = 0
    """Jobs that wait behind it, counted up to ``MOST_COUNTED``."""
    alert_id: str | None = None
    """Of the alert that says so, while it is not closed."""


class KnownLimit(Struct, frozen=True, kw_only=True):
    """A limit as a person sees it."""

    state: LimitState
    running: int = 0
    """Jobs that run under it."""
    waiting: int = 0
    """Jobs that wait for it, counted up to ``MOST_COUNTED``; of a queue, those that would run now if it let them."""


BulkVerb: TypeAlias = Literal["cancel", "retry", "run_now", "delete"]
MEANT_FOR: dict[BulkVerb, frozenset[Status]] = {
    "cancel": frozenset(one for one in Status if is_legal(one, Verb.CANCEL)),
    "retry": frozenset(one for one in Status if is_legal(one, Verb.RETRY_BY_HAND)),
    "run_now": frozenset(one for one in Status if is_legal(one, Verb.RUN_NOW)),
    "delete": frozenset(Status) - {Status.IN_PROGRESS},
}
"""The statuses in which a verb may be meant for a job."""


class Acted(Struct, frozen=True):
    """What became of one portion of jobs that a verb was meant for."""

    done: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    """Why, by id."""


def together(portions: Iterable[Acted]) -> Acted:
    """Several portions as one."""
    portions = list(portions)
    refused = {job_id: why for one in portions for job_id, why in one.refused.items()}
    return Acted(tuple(job_id for one in portions for job_id in one.done), refused)


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


class DeadLetter(Struct, frozen=True, kw_only=True):
    """As much of a job that is a dead letter as says what it died of."""

    id: str
    type: str
    queue: str
    attempts: int
    finished_at: datetime
    error: str | None = None


class Kept:
    """How long finished jobs of one type or queue are kept: ``Kept(completed="1h")``. What it does not say is as it is for all others.

    Raises ``InvalidDefinition`` for what is no duration.
    """

    def __init__(
        self,
        *,
        completed: timedelta | float | str | UnsetType | None = UNSET,
        cancelled: timedelta | float | str | UnsetType | None = UNSET,
        dead_letter: timedelta | float | str | UnsetType | None = UNSET,
    ) -> None:
        told = {Status.COMPLETED: completed, Status.CANCELLED: cancelled, Status.DEAD_LETTER: dead_letter}
        self.told = {status: _read_age(f"Kept({status.value}=...)", age) for status, age in told.items() if age is not UNSET}
        """The age of each status that it says something of."""


class Retention:
    """How long final jobs are kept after they finished: ``Retention(completed="7d")``. None keeps them until a person deletes them.

    ``types`` and ``queues`` say otherwise of some, by their names: ``Retention(types={"send-mail": Kept(completed="1h")})``. The type
    counts before the queue, the queue before the rest. ``unknown`` is how long jobs are kept at least whose type the application does not
    know: another one may share the store. ``rollups`` is how long the counts of each minute are kept, ``actions`` the record of who did
    what to how many, and ``alerts`` those that are over: all of them outlive the jobs.

    Raises ``InvalidDefinition`` for what is no duration.
    """

    def __init__(
        self,
        *,
        completed: timedelta | float | str | None = "7d",
        cancelled: timedelta | float | str | None = "7d",
        dead_letter: timedelta | float | str | None = None,
        types: Mapping[str, Kept] | None = None,
        queues: Mapping[str, Kept] | None = None,
        unknown: timedelta | float | str | None = "90d",
        rollups: timedelta | float | str | None = "90d",
        actions: timedelta | float | str | None = "90d",
        alerts: timedelta | float | str | None = "90d",
    ) -> None:
        self.completed = _read_age("Retention(completed=...)", completed)
        self.cancelled = _read_age("Retention(cancelled=...)", cancelled)
        self.dead_letter = _read_age("Retention(dead_letter=...)", dead_letter)
        self.types = _read_kept("types", types)
        self.queues = _read_kept("queues", queues)
        self.unknown = _read_age("Retention(unknown=...)", unknown)
        self.rollups = _read_age("Retention(rollups=...)", rollups)
        self.actions = _read_age("Retention(actions=...)", actions)
        self.alerts = _read_age("Retention(alerts=...)", alerts)

    def by_status(self) -> dict[Status, timedelta]:
        """Which final statuses are pruned at all, and after how long, where neither type nor queue says otherwise."""
        return {status: age for status in FINAL if (age := self.age(status, None, None)) is not None}

    def age(self, status: Status, type_: Kept | None, queue: Kept | None) -> timedelta | None:
        """How long a job of this status is kept, by what is said of its type, of its queue, and of all."""
        for kept in (type_, queue):
            if kept is not None and status in kept.told:
                return kept.told[status]
        return {Status.COMPLETED: self.completed, Status.CANCELLED: self.cancelled, Status.DEAD_LETTER: self.dead_letter}[status]


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


def _read_age(argument: str, age: Any) -> timedelta | None:
    try:
        return None if age is None else parse_duration(age)
    except InvalidTime as error:
        raise InvalidDefinition(f"{argument}: {error}") from None


def _read_kept(argument: str, given: Any) -> dict[str, Kept]:
    example = f'Retention({argument}={{"send-mail": Kept(completed="1h")}})'
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidDefinition(f"{argument}= takes a Kept for each name, such as {example}, not {shown(given)}")
    for name, kept in given.items():
        if not isinstance(kept, Kept):
            raise InvalidDefinition(f"{argument}= takes a Kept for {shown(name)}, such as {example}, not {shown(kept)}")
    return {check_name("queue" if argument == "queues" else "job name", name): kept for name, kept in given.items()}
