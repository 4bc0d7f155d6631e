"""What a queue does and why, as numbers: what waits and runs just now, and what ended within a while.

Finished rows are never counted: what ended comes from rollups, and what waits from small indexes, up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from onward.inspection import MOST_COUNTED
from onward.jobs import BlockedBy
from onward.presence import KnownWorker
from onward.rollups import Histogram, Rollup, quantile

Lane: TypeAlias = tuple[str, str]
"""Queue and type."""
LATEST = timedelta(minutes=5)
"""How far back ``Metrics.latest`` goes."""
COUNTED_AS_DONE = ("completed", "dead_lettered", "cancelled")
LOST = "lost"
"""The outcome of a claim that a sweep took back: its worker died, or was silent for longer than its lease."""


class Backlog(Struct, frozen=True, kw_only=True):
    """What waits and runs of one queue and type just now.

    Each count goes up to ``MOST_COUNTED``, of what is due to as much for all types of the queue together: ``is_capped`` says that there
    may be more.
    """

    queue: str
    type: str
    due: int = 0
    """Jobs that may run now and do not: they wait for a free slot."""
    oldest_due_at: datetime | None = None
    """Since when the longest of all that are due waits, those that wait for others included."""
    blocked: dict[BlockedBy, int] = {}
    """Due jobs that wait for others, by what they wait for."""
    in_progress: int = 0
    dead_letters: int = 0
    is_capped: bool = False

    @property
    def lane(self) -> Lane:
        return self.queue, self.type

    @property
    def depth(self) -> int:
        """All that is due and does not run."""
        return self.due + sum(self.blocked.values())


class Flow(Struct, frozen=True, kw_only=True):
    """What ended of one queue and type within a window of so many ``seconds``."""

    queue: str
    type: str
    seconds: float
    outcomes: dict[str, int] = {}
    """How many runs ended how: ``completed``, ``retried``, ``dead_lettered``, ``cancelled``, ``snoozed``, ``released``, ``lost``."""
    waited: Histogram = {}
    ran: Histogram = {}

    @property
    def lane(self) -> Lane:
        return self.queue, self.type

    @property
    def done(self) -> int:
        """Jobs that are done with, however they ended."""
        return sum(self.outcomes.get(outcome, 0) for outcome in COUNTED_AS_DONE)

    @property
    def per_minute(self) -> float:
        """Jobs done with in a minute."""
        return 60 * self.done / self.seconds

    @property
    def lost_per_minute(self) -> float:
        """Claims in a minute whose lease ran out."""
        return 60 * self.outcomes.get(LOST, 0) / self.seconds

    @property
    def success_rate(self) -> float | None:
        """Of the jobs that ended by themselves, the share that completed, 0 to 1. None where none did."""
        completed = self.outcomes.get("completed", 0)
        ended = completed + self.outcomes.get("dead_lettered", 0)
        return completed / ended if ended else None

    def wait(self, share: float) -> float | None:
        """Seconds, at most 5 % off, within which this share of the runs began, from when they were due. None where none did."""
        return quantile(self.waited, share)

    def run(self, share: float) -> float | None:
        """Seconds, at most 5 % off, within which this share of the runs ended. None where none did."""
        return quantile(self.ran, share)


class Total(Struct, frozen=True, kw_only=True):
    """What has ever ended of one queue, type and outcome: it only grows, and outlives the rollups that it was counted from."""

    queue: str
    type: str
    outcome: str
    since: str
    """The minute in which the first ended, in UTC: ``2026-01-31T23:59``."""
    count: int
    waited: Histogram = {}
    ran: Histogram = {}

    @property
    def lane(self) -> Lane:
        return self.queue, self.type


class Metrics(Struct, frozen=True, kw_only=True):
    """A look at a store. Every instant is aware UTC."""

    at: datetime
    """When, by the store's clock."""
    window: timedelta
    """Of what ended: how far back it was counted."""
    backlog: tuple[Backlog, ...] = ()
    flows: tuple[Flow, ...] = ()
    latest: tuple[Flow, ...] = ()
    """What ended in the last minutes: the pace of now."""
    workers: tuple[KnownWorker, ...] = ()
    """Those that have said within a day that they are there, dead ones included."""
    paused: frozenset[str] = frozenset()
    """The queues that are."""

    def drained_in(self, lane: Lane) -> timedelta | None:
        """How long the jobs of a queue and type that are due take at the pace of the last minutes. None where nothing shows a pace."""
        depth = sum(one.depth for one in self.backlog if one.lane == lane)
        pace = sum(one.per_minute for one in self.latest if one.lane == lane)
        return timedelta(minutes=depth / pace) if pace else None if depth else timedelta(0)


def flows(rollups: Iterable[Rollup], window: timedelta) -> list[Flow]:
    """What ended, by queue and type, in their order."""
    found: dict[Lane, tuple[dict[str, int], Histogram, Histogram]] = {}
    for one in rollups:
        outcomes, waited, ran = found.setdefault((one.queue, one.type), ({}, {}, {}))
        outcomes[one.outcome] = outcomes.get(one.outcome, 0) + one.count
        _add(waited, one.waited)
        _add(ran, one.ran)
    seconds = window.total_seconds()
    return [
        Flow(queue=queue, type=type_, seconds=seconds, outcomes=outcomes, waited=waited, ran=ran)
        for (queue, type_), (outcomes, waited, ran) in sorted(found.items())
    ]


def add_rollups(counted: Iterable[Total], rollups: Iterable[Rollup]) -> list[Total]:
    """Add rollups to what was counted before, by queue, type and outcome, in their order."""
    sums = {(one.queue, one.type, one.outcome): one for one in counted}
    for rollup in rollups:
        name = (rollup.queue, rollup.type, rollup.outcome)
        was = sums.get(name) or Total(queue=rollup.queue, type=rollup.type, outcome=rollup.outcome, since=rollup.minute, count=0)
        waited, ran = was.waited.copy(), was.ran.copy()
        _add(waited, rollup.waited)
        _add(ran, rollup.ran)
        sums[name] = replace(was, since=min(was.since, rollup.minute), count=was.count + rollup.count, waited=waited, ran=ran)
    return [sums[name] for name in sorted(sums)]


def shown_count(count: int, *, is_capped: bool) -> str:
    """A count for people: ``10k+`` where there may be more."""
    return f"{MOST_COUNTED // 1000}k+" if is_capped and count >= MOST_COUNTED else f"{count:,}{'+' if is_capped else ''}"


def _add(into: Histogram, more: Histogram) -> None:
    for bucket, times in more.items():
        into[bucket] = into.get(bucket, 0) + times
