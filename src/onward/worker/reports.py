"""Turns what the worker did into events. Builds nothing where nobody listens."""

from __future__ import annotations

from onward.driver import Claim, Settlement, Swept
from onward.events import Event, EventName, Events, correlation_id
from onward.jobs import Job
from onward.outcome import EXPIRED, Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed

_NAMES: dict[type[Outcome], EventName] = {
    Completed: "completed",
    Retried: "failed",
    Snoozed: "snoozed",
    Released: "released",
    Cancelled: "cancelled",
    DeadLettered: "dead_lettered",
}


class Reports:
    """One worker's events."""

    def __init__(self, events: Events, worker_id: str | None) -> None:
        self._events = events
        self._worker_id = worker_id

    @property
    def has_readers(self) -> bool:
        return self._events.has_subscribers

    def claimed(self, claim: Claim) -> None:
        if self.has_readers:
            self._emit("claimed", claim.job)

    def settled(self, settlement: Settlement, seconds: float | None) -> None:
        if self.has_readers:
            outcome = settlement.outcome
            error = outcome.reason if isinstance(outcome, Cancelled) else getattr(outcome, "error", None)
            self._emit(_NAMES[type(outcome)], settlement.claim.job, error=error, seconds=seconds)

    def lease_lost(self, claim: Claim, seconds: float | None) -> None:
        if self.has_readers:
            self._emit("lease_lost", claim.job, seconds=seconds)

    def swept(self, swept: Swept) -> None:
        if not self.has_readers:
            return
        for job in swept.requeued:
            self._emit("reclaimed", job, error=job.error)
        for job in swept.dead_lettered:
            self._emit("dead_lettered", job, error=job.error)
        self.expired(swept.expired)

    def expired(self, job_ids: tuple[str, ...]) -> None:
        if self.has_readers:
            for job_id in job_ids:
                self._events.emit(Event(event="cancelled", job_id=job_id, job_type="", worker_id=self._worker_id, error=EXPIRED))

    def _emit(self, name: EventName, job: Job, *, error: str | None = None, seconds: float | None = None) -> None:
        self._events.emit(
            Event(
                event=name,
                job_id=job.id,
                job_type=job.type,
                queue=job.queue,
                worker_id=self._worker_id,
                attempts=job.attempts,
                priority=job.priority,
                duration_ms=None if seconds is None else round(seconds * 1000, 3),
                error=error,
                correlation_id=correlation_id(job.metadata, job.id),
            )
        )
