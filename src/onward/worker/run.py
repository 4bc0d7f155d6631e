"""``Run``: one attempt, while this worker holds it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from onward.context import JobContext
from onward.definition import JobDefinition
from onward.turn import Claim

if TYPE_CHECKING:
    import asyncio

SAFE_SHARE = 0.8
"""After this share of a lease without renewal nothing is done in the claim's name any more."""


class Run:
    """One attempt at a job while this worker holds its claim. Instants are seconds of the monotonic clock."""

    __slots__ = (
        "cancel_requested_at",
        "claim",
        "claimed_at",
        "context",
        "definition",
        "ended_at",
        "is_held_up",
        "is_lost",
        "mark",
        "renewed_at",
        "sent_progress",
        "started_at",
        "task",
        "was_cancelled_by_stop",
        "was_timed_out",
    )

    def __init__(self, claim: Claim, definition: JobDefinition[Any], context: JobContext, claimed_at: float) -> None:
        self.claim = claim
        self.definition = definition
        self.context = context
        self.claimed_at = claimed_at
        """Taken before the store was asked, so never later than the store's own reading."""
        self.renewed_at = claimed_at
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.cancel_requested_at: datetime | None = None
        self.is_held_up = False
        """Its row was held by somebody else when its lease was to be renewed; nobody can take it until it is let go."""
        self.is_lost = False
        """The claim is not ours any more; its outcome is not sent."""
        self.was_timed_out = False
        self.was_cancelled_by_stop = False
        self.task: asyncio.Task[None] | None = None
        self.sent_progress: str | None = None
        self.mark: int | None = None
        """Where the map of started jobs has it."""

    @property
    def key(self) -> tuple[str, int]:
        """What tells this claim from every other."""
        return (self.claim.job.id, self.claim.job.fence)

    @property
    def lease(self) -> float:
        """Seconds."""
        return self.claim.lease.total_seconds()

    @property
    def safe_until(self) -> float:
        """Until when the claim is surely ours."""
        return self.renewed_at + SAFE_SHARE * self.lease

    @property
    def limit(self) -> float | None:
        """How many seconds the handler may take."""
        timeout = self.definition.timeout
        return None if timeout is None else timeout.total_seconds()

    @property
    def due_to_end_at(self) -> float | None:
        """When the time limit is reached; None where there is none, or nothing has started."""
        limit = self.limit
        return None if limit is None or self.started_at is None else self.started_at + limit

    @property
    def seconds(self) -> float | None:
        """How long the handler ran."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    def time_out(self) -> None:
        """The limit is reached: end the task. Called on the event loop."""
        self.was_timed_out = True
        self.context.ask_to_stop()
        if self.task is not None:
            self.task.cancel()

    def cancel_task(self) -> None:
        """End the task, if there is one yet. Called on the event loop."""
        if self.task is not None:
            self.task.cancel()
