"""The values of a worker's turn: what it asks of a store, what it tells it, and what it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec import Struct

from onward.admission import Constraint
from onward.breaker import BreakerPolicy, RunEnding
from onward.errors import ValueRefused
from onward.jobs import HIGHEST_COUNT, Job, NewJob
from onward.outcome import Completed, Outcome

BLOCKED_PER_TURN = 1000
"""Due rows of each kind that a turn sets aside."""


class Claim(Struct, frozen=True, gc=False):
    """The proof that a run is ours: the job as claimed, whose ``fence`` and ``lease_owner`` every later statement names."""

    job: Job
    lease: timedelta
    """How long each renewal lasts."""

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def fence(self) -> int:
        return self.job.fence

    @property
    def key(self) -> tuple[str, int]:
        """What tells this claim from every other: the job's id and its fence."""
        return self.job.id, self.job.fence


class Settlement(Struct, frozen=True, kw_only=True, gc=False):
    """How one claim ended and what is committed with it."""

    claim: Claim
    outcome: Outcome
    children: tuple[NewJob, ...] = ()
    """Enqueued in the same commit, and only if the outcome is ``Completed``."""
    progress: str | None = None
    processed: int = 0
    failed: int = 0
    seconds: float | None = None
    """How long the handler ran; None where none began. For the rollups."""
    breaker: BreakerPolicy | None = None
    """Of a job that has a breaker: by which numbers it opens. None where the code says nothing of it any more."""
    run_ending: RunEnding = "other"
    """What the end of the run says of the breaker's provider."""
    keeps_history: bool = False
    """Write an attempt also for a success. Every other ending is always written."""


def ending_of(settlement: Settlement) -> RunEnding:
    """What the end of a run says of its breaker. Code that names none any more can only say that the run completed."""
    if settlement.breaker is not None:
        return settlement.run_ending
    return "success" if isinstance(settlement.outcome, Completed) else "other"


class Demand(Struct, frozen=True, kw_only=True):
    """What a worker can take on."""

    lease_owner: str
    slots: int
    types: Mapping[str, timedelta]
    """The job types it knows, and the lease of each. A due job of another type gets ``blocked_by = 'type'`` and spends no try."""
    queues: tuple[str, ...] = ()
    """The queues it serves; empty means every queue."""
    constraints: Mapping[str, Constraint] = {}
    """What the code says of types whose jobs wait for others."""
    unblocks: bool = False
    """Begin with jobs that a worker which does not know their type has blocked, at most ``slots`` of these types and queues: they are not
    blocked any more, and claimed in their place. Where thousands are blocked, the first are chosen among as many as a turn may block.
    A worker asks for it when the turn before ``leaves_blocked``."""


class Turn(Struct, frozen=True, kw_only=True):
    """What one turn did."""

    settled: tuple[Settlement, ...] = ()
    """Settlements that hold now, those included that an earlier try of the same turn had stored before its answer was lost. Each with
    the outcome that was really stored: a person may have asked to cancel the job, or its result may have no form in a database."""
    lost: tuple[Settlement, ...] = ()
    """Settlements refused because the claim was not the newest any more, or the row is gone. Nothing of them was stored."""
    held_up: tuple[Settlement, ...] = ()
    """Settlements that somebody else's open transaction kept from being stored: neither stored nor refused. Send them again later."""
    claims: tuple[Claim, ...] = ()
    """In the order to run them: priority, scheduled_at, id."""
    expired: tuple[Job, ...] = ()
    """Due jobs that were past ``expires_at`` and ended cancelled."""
    next_due: timedelta | None = None
    """When the next job of these queues is due; zero when more is due already; None when nothing waits."""
    blocked: int = 0
    """How many due jobs of a type that this worker does not know were set aside."""
    leaves_blocked: bool = False
    """Jobs of these types and queues are left blocked, by a worker that does not know their type (``Demand.unblocks``)."""


class Extension(Struct, frozen=True):
    """Ask to renew one claim's lease, and store how far the handler has come."""

    claim: Claim
    progress: str | None = None
    began_isolated: bool = False
    """Say that the handler starts now and has its process to itself (``Job.ran_isolated``). It may start once this is stored."""


class Extended(Struct, frozen=True):
    """The answer to a heartbeat, as job ids."""

    lost: frozenset[str] = frozenset()
    """Claims that are not ours any more."""
    cancel_requested: frozenset[str] = frozenset()
    """Claims that a person asked to cancel."""
    held_up: frozenset[str] = frozenset()
    """Claims that are ours and were not renewed, since somebody else's transaction holds their row. Try again soon: once it is let go, a
    lease that has run out meanwhile can be lost."""


class Swept(Struct, frozen=True, kw_only=True):
    """What a sweep, or the recovery of a dead process, changed. Jobs as they are afterwards, each in one place."""

    requeued: tuple[Job, ...] = ()
    dead_lettered: tuple[Job, ...] = ()
    cancelled: tuple[Job, ...] = ()
    """Somebody had asked for it, and nobody is left to do it."""
    expired: tuple[Job, ...] = ()
    unblocked: int = 0
    suspected: int = 0
    """Claims that ran out and were left to a later sweep: their workers may only have been kept from renewing them."""


def check_settlements(settlements: Iterable[Settlement]) -> None:
    """Raise ``ValueRefused`` for what a database would store as something else, or not at all. Types are looked at exactly."""
    for one in settlements:
        for name, count in (("processed", one.processed), ("failed", one.failed)):
            if type(count) is not int or not 0 <= count <= HIGHEST_COUNT:
                raise ValueRefused(f"{name} of job {one.claim.id} cannot be stored: it is a whole number from 0 to {HIGHEST_COUNT:,}")
        result = one.outcome.result if isinstance(one.outcome, Completed) else None
        if not (result is None or type(result) is str) or not (one.progress is None or type(one.progress) is str):
            raise ValueRefused(f"the result or progress of job {one.claim.id} cannot be stored: it is JSON text or None")
