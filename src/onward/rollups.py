"""What ended, counted per minute, so that rates and percentiles never count rows of jobs.

A worker writes only rows of its own, as absolute values from its memory: so nobody waits for a row, and a turn that is repeated after an
unknown commit counts nothing twice. Readers sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import log
from typing import TypeAlias

from msgspec import Struct

from onward.ids import new_id
from onward.jobs import Job
from onward.turn import Settlement

GROWTH = 1.1
"""How many times as long the times of a bucket are as those of the one before: its middle is at most 5 % off from each of them."""
MERGED_AFTER = timedelta(minutes=5)
"""Minutes older than that are written by nobody any more, so the pruner may make one row of those of all workers."""
MERGED_WITHIN = timedelta(days=2)
"""How far back it looks for minutes with several rows: it does so every few minutes, and need not walk through months."""
_PER_E = 1 / log(GROWTH)
_LONGEST = 1e9
"""Seconds: thirty years."""

Histogram: TypeAlias = dict[int, int]
"""How often a time fell into each bucket; bucket n begins at ``GROWTH ** n`` microseconds."""
Cell: TypeAlias = tuple[str, str, str, str]
"""Minute, queue, type and outcome."""


class Rollup(Struct, kw_only=True):
    """What one worker saw end in one minute, of one queue, type and outcome. ``minute`` is UTC: ``2026-01-31T23:59``.

    ``waited`` is from when a job was due to its start, ``ran`` how long its handler took; a job that never started has neither.
    """

    minute: str
    queue: str
    type: str
    outcome: str
    worker: str
    count: int = 0
    waited: Histogram = {}
    ran: Histogram = {}

    @property
    def cell(self) -> Cell:
        return self.minute, self.queue, self.type, self.outcome

    def copied(self) -> Rollup:
        """The same, to be changed by itself."""
        return Rollup(
            minute=self.minute,
            queue=self.queue,
            type=self.type,
            outcome=self.outcome,
            worker=self.worker,
            count=self.count,
            waited=self.waited.copy(),
            ran=self.ran.copy(),
        )


class Written(Struct, frozen=True):
    """What a turn stores: values as they are now, and ``corrected`` those that an earlier try may have stored and that do not hold."""

    values: tuple[Rollup, ...] = ()
    corrected: tuple[Rollup, ...] = ()


class Tally:
    """One worker's counts. A turn stores what ``add`` gives in the transaction that settles, and calls ``confirm`` when it is committed."""

    def __init__(self, worker: str) -> None:
        self._name = self._worker = worker
        self._newest = ""
        """The minute whose counts are remembered."""
        self._of_before: list[Rollup] = []
        """What is to be set right under an earlier name."""
        self._confirmed: dict[Cell, Rollup] = {}
        self._added: dict[Cell, Rollup] = {}
        self._doubtful: set[Cell] = set()
        """What tries wrote whose end was not confirmed."""

    def add(self, settled: Sequence[Settlement], now: datetime) -> Written:
        """Count these, and say what is to be stored."""
        self._doubtful |= self._added.keys()
        added: dict[Cell, Rollup] = {}
        self._added = added
        minute = minute_of(now)
        if minute < self._newest:
            self._begin_anew(minute)
        for settlement in settled:
            job = settlement.claim.job
            cell = (minute, job.queue, job.type, settlement.outcome.name)
            rollup = added.get(cell)
            if rollup is None:
                rollup = added[cell] = self._value(cell).copied()
            rollup.count += 1
            if job.started_at is not None and settlement.seconds is not None:
                waited = bucket_of((job.started_at - job.scheduled_at).total_seconds())
                rollup.waited[waited] = rollup.waited.get(waited, 0) + 1
                ran = bucket_of(settlement.seconds)
                rollup.ran[ran] = rollup.ran.get(ran, 0) + 1
        corrected = (self._value(cell) for cell in sorted(self._doubtful - added.keys()))
        return Written(tuple(added.values()), (*self._of_before, *corrected))

    def _begin_anew(self, minute: str) -> None:
        """The clock went back into a minute whose counts are not remembered: under another name, none of them is overwritten."""
        self._of_before += [self._value(cell) for cell in sorted(self._doubtful)]
        self._doubtful.clear()
        self._confirmed = {}
        self._newest = minute
        self._worker = f"{self._name}:{new_id()}"

    def confirm(self) -> None:
        """What the last ``add`` gave is stored."""
        self._confirmed |= self._added
        self._added = {}
        self._doubtful.clear()
        self._of_before.clear()
        self._newest = max((cell[0] for cell in self._confirmed), default=self._newest)
        self._confirmed = {cell: rollup for cell, rollup in self._confirmed.items() if cell[0] == self._newest}

    def _value(self, cell: Cell) -> Rollup:
        minute, queue, type_, outcome = cell
        return self._confirmed.get(cell) or Rollup(minute=minute, queue=queue, type=type_, outcome=outcome, worker=self._worker)


def of_jobs(outcome: str, jobs: Iterable[Job], now: datetime) -> list[Rollup]:
    """What ended without a worker that tells of it, under a name that nobody else writes: ``lost`` claims, ``expired`` jobs."""
    counts = Counter((job.queue, job.type) for job in jobs)
    name = f"{outcome}:{new_id()}"
    return [
        Rollup(minute=minute_of(now), queue=queue, type=type_, outcome=outcome, worker=name, count=count)
        for (queue, type_), count in sorted(counts.items())
    ]


def minute_of(moment: datetime) -> str:
    """The minute of a moment, in UTC, as text that sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="minutes")[:16]


def bucket_of(seconds: float) -> int:
    """Into which bucket a time falls; what is shorter than a microsecond, or negative, falls into the first."""
    if seconds <= 1e-6:
        return 0
    return int(log(seconds * 1e6 if seconds < _LONGEST else _LONGEST * 1e6) * _PER_E)


def quantile(histogram: Histogram, share: float) -> float | None:
    """Seconds, at most 5 % off, within which this share of the times (0 to 1) lies; None where there are none."""
    total = sum(histogram.values())
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= share * total:
            return float(GROWTH ** (bucket + 0.5)) / 1e6
    return None


def summed(rollups: Iterable[Rollup]) -> list[Rollup]:
    """One a cell, of all workers, whose name is empty then. In the order of the cells."""
    sums: dict[Cell, Rollup] = {}
    for one in rollups:
        into = sums.get(one.cell)
        if into is None:
            into = sums[one.cell] = one.copied()
            into.worker = ""
            continue
        into.count += one.count
        for mine, more in ((into.waited, one.waited), (into.ran, one.ran)):
            for bucket, times in more.items():
                mine[bucket] = mine.get(bucket, 0) + times
    return [sums[cell] for cell in sorted(sums)]
