"""``Run``: one attempt, while this worker holds it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from onward.context import JobContext
from onward.definition import JobDefinition
from onward.turn import Claim
from onward.worker.isolated_messages import Notice

if TYPE_CHECKING:
    import asyncio

    from onward.worker.isolated_process import IsolatedProcess

SAFE_SHARE = 0.8
"""After this share of a lease without renewal nothing is done in the claim's name any more."""


class Run:
    """One attempt at a job while this worker holds its claim. Instants are seconds of the monotonic clock."""

    __slots__ = (
        "cancel_requested_at",
        "cancelled_at",
        "claim",
        "claimed_at",
        "context",
        "definition",
        "ended_at",
        "is_given_up",
        "is_held_up",
        "is_lost",
        "key",
        "mark",
        "process",
        "renewed_at",
        "sent_progress",
        "started_at",
        "task",
        "unsure_until",
        "was_cancelled_by_stop",
        "was_timed_out",
    )

    def __init__(self, claim: Claim, definition: JobDefinition[Any], context: JobContext, claimed_at: float) -> None:
        self.claim = claim
        self.key = claim.key
        self.definition = definition
        self.context = context
        self.claimed_at = claimed_at
        """Taken before the store was asked, so never later than the store's own reading."""
        self.renewed_at = claimed_at
        self.unsure_until = claimed_at
        """The process did not run while its lease ran out, and asks until then whether anybody has taken the claim."""
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.cancel_requested_at: datetime | None = None
        self.cancelled_at: float | None = None
        """When the handler was told that a person had asked for its end."""
        self.is_held_up = False
        """Its row was held by somebody else when its lease was to be renewed; nobody can take it until it is let go."""
        self.is_lost = False
        """The claim is not ours any more; its outcome is not sent."""
        self.is_given_up = False
        """It was settled although its handler had not ended."""
        self.process: IsolatedProcess | None = None
        """Where its handler runs, if that is not here."""
        self.was_timed_out = False
        self.was_cancelled_by_stop = False
        self.task: asyncio.Task[None] | None = None
        self.sent_progress: str | None = None
        self.mark: int | None = None
        """Where the map of started jobs has it."""

    @property
    def lease(self) -> float:
        """Seconds."""
        return self.claim.lease.total_seconds()

    @property
    def safe_until(self) -> float:
        """Until when we act as the claim's owner."""
        return max(self.renewed_at + SAFE_SHARE * self.lease, self.unsure_until)

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

    def oversleep(self, now: float) -> None:
        """The process was stopped, with the whole machine or alone. Nobody may have taken the claim: there is a heartbeat's time to ask."""
        self.unsure_until = now + self.lease / 3

    def run_in(self, process: IsolatedProcess) -> None:
        """Its handler runs in this process, which ends at once if nobody waits for the outcome any more."""
        self.process = process
        if self.is_given_up:
            process.kill()

    def repeat_notices(self) -> None:
        """Tell the process that begins to run the handler what has happened before."""
        if self.cancel_requested_at is not None:
            self._tell(Notice("cancelled", self.cancel_requested_at))
        elif self.was_cancelled_by_stop:
            self._tell(Notice("given_back"))
        elif self.context.should_stop:
            self._tell(Notice("stop"))

    def ask_to_stop(self) -> None:
        """Tell the handler to end soon."""
        self.context.ask_to_stop()
        self._tell(Notice("stop"))

    def lose_lease(self) -> None:
        """Tell the handler that the claim is not ours any more. Its own process is killed: another may run the job already."""
        self.context.lose_lease()
        self.give_up()

    def cancel(self, at: datetime, now: float) -> None:
        """Tell the handler that a person asked for the end: at this moment, which the monotonic clock calls ``now``."""
        self.cancelled_at = now
        self.cancel_requested_at = at
        self.context.ask_to_stop()
        self._tell(Notice("cancelled", at))

    def give_back(self) -> None:
        """Tell an async handler that it is cancelled, since the worker stops."""
        self.was_cancelled_by_stop = True
        self._tell(Notice("given_back"))

    def give_up(self) -> None:
        """Nobody waits for the handler any more."""
        self.is_given_up = True
        if (process := self.process) is not None:
            process.kill()

    def _tell(self, notice: Notice) -> None:
        if (process := self.process) is not None:
            process.tell(notice)

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
