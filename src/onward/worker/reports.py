"""Turns what the worker did into events. Builds nothing where nobody listens."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from onward.driver import Store
from onward.durations import format_duration
from onward.errors import OnwardError
from onward.events import Event, EventName, Events, correlation_id
from onward.inspection import JobFilter
from onward.jobs import Job, NewJob
from onward.outcome import EXPIRED, Cancelled, Completed, DeadLettered, Outcome, Released, Retried, Snoozed
from onward.turn import Claim, Settlement, Swept

logger = logging.getLogger("onward.worker")

_NAMES: dict[type[Outcome], EventName] = {
    Completed: "completed",
    Retried: "failed",
    Snoozed: "snoozed",
    Released: "released",
    Cancelled: "cancelled",
    DeadLettered: "dead_lettered",
}


class Reports:
    """One worker's events. ``store`` is asked whether a child with a key was accepted, or another job had its key."""

    def __init__(self, events: Events, worker_id: str | None, store: Store | None = None) -> None:
        self._events = events
        self._worker_id = worker_id
        self._store = store

    @property
    def has_readers(self) -> bool:
        return self._events.has_subscribers

    def claimed(self, claims: Iterable[Claim]) -> None:
        if self.has_readers:
            self._events.emit_all([self._event("claimed", claim.job) for claim in claims])

    def settled(self, ended: Iterable[tuple[Settlement, float | None]]) -> None:
        """How these runs ended is stored, and with a completion its children are. Each with the seconds that it ran."""
        events: list[Event] = []
        has_readers = self.has_readers
        for settlement, seconds in ended:
            job, outcome = settlement.claim.job, settlement.outcome
            if type(outcome) is Completed:
                error = outcome.error
            elif isinstance(outcome, Retried | DeadLettered):
                error = outcome.error
                _log_failure(job, outcome)
            else:
                error = outcome.reason if isinstance(outcome, Cancelled) else None
            if has_readers:
                events.append(self._event(_NAMES[type(outcome)], job, error=error, seconds=seconds))
                if settlement.children:
                    events += [self._event("queued", child) for child in settlement.children if self._was_accepted(child)]
        self._events.emit_all(events)

    def lease_lost(self, claim: Claim, seconds: float | None) -> None:
        if self.has_readers:
            self._events.emit(self._event("lease_lost", claim.job, seconds=seconds))

    def swept(self, swept: Swept) -> None:
        if not self.has_readers:
            return
        events = [self._event("reclaimed", job, error=job.error) for job in swept.requeued]
        events += [self._event("dead_lettered", job, error=job.error) for job in swept.dead_lettered]
        events += [self._event("cancelled", job, error=job.error) for job in swept.cancelled]
        self._events.emit_all(events)
        self.expired(swept.expired)

    def expired(self, jobs: Iterable[Job]) -> None:
        if self.has_readers:
            self._events.emit_all([self._event("cancelled", job, error=EXPIRED) for job in jobs])

    def _was_accepted(self, child: NewJob) -> bool:
        if child.key is None or self._store is None:
            return True
        try:
            return self._store.count(JobFilter(ids=(child.id,))) > 0
        except OnwardError:
            return True

    def _event(self, name: EventName, job: Job | NewJob, *, error: str | None = None, seconds: float | None = None) -> Event:
        return Event(
            event=name,
            job_id=job.id,
            job_type=job.type,
            queue=job.queue,
            worker_id=self._worker_id,
            attempts=job.attempts if isinstance(job, Job) else 0,
            priority=job.priority,
            duration_ms=None if seconds is None else round(seconds * 1000, 3),
            error=error,
            correlation_id=correlation_id(job.metadata, job.id),
        )


def _log_failure(job: Job, outcome: Retried | DeadLettered) -> None:
    """Say it where a developer looks first. The error's text is the one that is stored, without secrets."""
    reason = outcome.error.partition("\n")[0]
    extra = {"job_id": job.id, "job_type": job.type, "correlation_id": correlation_id(job.metadata, job.id)}
    if isinstance(outcome, Retried):
        again = format_duration(outcome.delay)
        logger.warning(
            "job %s (%s) failed at try %d of %d, the next one comes in %s: %s",
            job.id, job.type, job.attempts, job.max_attempts, again, reason, extra=extra,
        )  # fmt: skip
    else:
        tries = "1 try" if job.attempts == 1 else f"{job.attempts} tries"
        logger.error("job %s (%s) is dead-lettered after %s: %s", job.id, job.type, tries, reason, extra=extra)
