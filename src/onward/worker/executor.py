"""Runs one claim: decode the payload, call the handler within its time limit, and decide how the run ended.

Knows no store and starts no thread, so tests, the command line and every later entry run jobs through it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from msgspec.structs import replace

from onward.breaker import Failure
from onward.clock import Clock, SystemClock
from onward.context import JobContext, Transactions
from onward.definition import JobDefinition
from onward.durations import format_duration
from onward.error_text import bound_error, name_of
from onward.errors import InvalidPayload, OnwardError
from onward.jobs import Job
from onward.outcome import (
    Cancel,
    Cancelled,
    Completed,
    DeadLettered,
    Outcome,
    Release,
    Released,
    Retried,
    Snooze,
    Snoozed,
    StoppedByWorker,
    decide,
)
from onward.registry import Registry
from onward.turn import Claim, Settlement
from onward.worker.isolated_process import IsolatedProcessDied
from onward.worker.run import Run
from onward.worker.settlement import settlement_of

logger = logging.getLogger("onward.worker")

NOT_COMMITTED = (
    "the handler returned, but the transaction that it gave to ctx.transaction() was not committed, so its writes are gone: "
    "commit it before returning, or leave the block by an exception"
)
_IGNORED: dict[type, str] = {Snooze: "Snooze", Cancel: "Cancel", Release: "Release"}


class Executor:
    """Turns a ``Claim`` into a ``Settlement``, whatever the handler does. ``on_begin`` is called right before a handler begins."""

    def __init__(
        self,
        definitions: Registry,
        services: Any = None,
        clock: Clock | None = None,
        chance: Random | None = None,
        *,
        transactions: Transactions | None = None,
        worker_id: str | None = None,
        on_begin: Callable[[Run], object] | None = None,
    ) -> None:
        self._definitions = definitions
        self._services = services
        self._clock = clock or SystemClock()
        self._chance = chance or Random()
        self._transactions = transactions
        self._worker_id = worker_id
        self._on_begin = on_begin

    def run(self, claim: Claim) -> Settlement:
        """Run a claim to its end in this thread; an async handler gets an event loop of its own."""
        run = self.prepare(claim)
        if run is None:
            return Settlement(claim=claim, outcome=Released())
        if run.definition.is_async:
            return asyncio.run(self.execute_async(run))
        return self.execute(run)

    async def run_async(self, claim: Claim) -> Settlement:
        """Run a claim to its end on the running event loop; a sync handler blocks it."""
        run = self.prepare(claim)
        if run is None:
            return Settlement(claim=claim, outcome=Released())
        if run.definition.is_async:
            return await self.execute_async(run)
        return self.execute(run)

    def prepare(self, claim: Claim, claimed_at: float | None = None) -> Run | None:
        """Make everything ready for a run; None when no definition here knows the type, and the claim is to be released."""
        job = claim.job
        definition = self._definitions.get(job.type)
        if definition is None:
            logger.warning("job %s of type %s was claimed but is not known here: given back", job.id, job.type)
            return None
        context = JobContext(
            job,
            services=self._services,
            transactions=self._transactions,
            worker_id=self._worker_id,
            knows=self._definitions.__contains__,
        )
        return Run(claim, definition, context, self._clock.monotonic() if claimed_at is None else claimed_at)

    def execute(self, run: Run) -> Settlement:
        """Run a sync handler. Never raises."""
        # The error is used inside its own except block only: a name that outlived it would keep the handler's frames alive.
        try:
            ending = self._begin(run)
            _refuse_awaitable(run.definition, ending)
        except BaseException as error:  # noqa: BLE001 - SystemExit and its like end a run, never a worker
            return self.conclude(run, error)
        return self.conclude(run, ending)

    async def execute_async(self, run: Run) -> Settlement:
        """Run an async handler. Never raises, not even when its task is cancelled."""
        limit, loop = run.limit, asyncio.get_running_loop()
        run.task = asyncio.current_task()
        timer = None if limit is None else loop.call_later(limit, run.time_out)
        try:
            ending = await self._begin(run)
        except BaseException as error:  # noqa: BLE001 - as above
            await _after(run, timer, loop)
            return self.conclude(run, error)
        await _after(run, timer, loop)
        return self.conclude(run, ending)

    def conclude(self, run: Run, ending: object) -> Settlement:
        """Say how a run ended. Also for runs that never began, or whose handler will not end: see ``StoppedByWorker``."""
        self.note_end(run)
        outcome = self._outcome(run, ending)
        context = run.context
        if context.is_completed():
            outcome = _completed_before(run, outcome, ending)
        elif context.may_be_completed and isinstance(outcome, Completed):
            outcome = self._outcome(run, OnwardError(NOT_COMMITTED))
        return settlement_of(run.claim, run.definition, run.context, outcome, run.seconds, self._failure(run, ending))

    def note_start(self, run: Run) -> None:
        """The handler begins now."""
        run.started_at = self._clock.monotonic()

    def note_end(self, run: Run) -> None:
        """The handler has ended."""
        run.ended_at = self._clock.monotonic()

    def now(self) -> datetime:
        """The moment, by the clock of the store."""
        return self._clock.now()

    def _begin(self, run: Run) -> Any:
        self.note_start(run)
        if self._on_begin is not None:
            self._on_begin(run)
        return run.definition.call(_decode(run.definition, run.claim.job), run.context)

    def _outcome(self, run: Run, ending: object) -> Outcome:
        job = run.claim.job
        if run.cancel_requested_at is not None:
            job = replace(job, cancel_requested_at=run.cancel_requested_at)
        if isinstance(ending, asyncio.CancelledError) and run.was_cancelled_by_stop:
            ending = StoppedByWorker()
        is_timed_out = self._is_over_limit(run) and not isinstance(ending, StoppedByWorker)
        if is_timed_out:
            ending = TimeoutError(f"timed out after {format_duration(run.definition.timeout or timedelta(0))}")
        try:
            hide = run.definition.codec.secrets.hiding(job.payload)
            outcome = decide(job, ending, run.definition.retry, self._clock.now(), self._chance, hide)
        except BaseException as error:  # noqa: BLE001 - what a handler ended with, or its policy, may raise anything
            logger.error("no outcome could be chosen for job %s: %s", job.id, name_of(error))
            return DeadLettered(f"no outcome could be chosen: {name_of(error)}")
        # A handler that did not end in time may hang again, and cost its process: the next try has no neighbours there.
        return replace(outcome, isolated=True) if is_timed_out and isinstance(outcome, Retried) else outcome

    def _failure(self, run: Run, ending: object) -> Failure | None:
        """How the run failed, for its breaker; None where it did not, was only stopped, or its process died."""
        if (
            run.definition.constraints.breaker is None
            or isinstance(ending, StoppedByWorker | IsolatedProcessDied)
            or run.was_cancelled_by_stop
        ):
            return None
        if self._is_over_limit(run):
            return "timeout"
        try:
            # What is no Exception is no failure of a provider: the program wants to end, or a task was ended.
            return run.definition.retry.judge(ending) if isinstance(ending, Exception) else None
        except BaseException:  # noqa: BLE001 - a policy's own test may raise anything
            return "unknown"

    def _is_over_limit(self, run: Run) -> bool:
        if run.was_timed_out:
            return True
        limit, seconds = run.limit, run.seconds
        return limit is not None and seconds is not None and seconds >= limit


def _completed_before(run: Run, outcome: Outcome, ending: object) -> Completed:
    """The transaction has completed the job, and that stands; what the handler did afterwards must not pass in silence."""
    if outcome == Completed():
        return Completed()
    if not isinstance(ending, BaseException):
        logger.warning(
            "job %s (%s) was completed by its ctx.transaction(), so what its handler returned is ignored: %s",
            run.claim.id,
            run.claim.job.type,
            _IGNORED.get(type(ending), "a result"),
        )
    if isinstance(outcome, Completed | Released):
        return Completed()
    if isinstance(outcome, Snoozed):
        late = "the handler asked to run again"
    else:
        late = outcome.reason if isinstance(outcome, Cancelled) else outcome.error or ""
    error = bound_error(f"completed, but behind its transaction: {late}")
    logger.error("job %s (%s) is %s", run.claim.id, run.claim.job.type, error)
    return Completed(error=error)


async def _after(run: Run, timer: asyncio.TimerHandle | None, loop: asyncio.AbstractEventLoop) -> None:
    """An async handler has ended. Whether its transaction was committed is asked in a thread, since the store may be slow to answer."""
    if not loop.is_running():
        raise GeneratorExit  # Python collects a handler that was given up: it has not ended by itself, and nobody asks for its outcome
    run.task = None
    if timer is not None:
        timer.cancel()
    if run.context.may_be_completed and not run.context.completed_in_transaction:
        await asyncio.to_thread(run.context.is_completed)


def _decode(definition: JobDefinition[Any], job: Job) -> Any:
    try:
        return definition.codec.decode(job.payload)
    except InvalidPayload:
        raise
    except Exception as error:
        raise InvalidPayload(f"the payload cannot be read: {type(error).__name__}: {error}") from error


def _refuse_awaitable(definition: JobDefinition[Any], ending: object) -> None:
    if hasattr(type(ending), "__await__"):
        close = getattr(ending, "close", None)
        if close is not None:
            close()
        raise TypeError(f"the handler of {definition.name} returned an awaitable that nobody awaits: declare it with async def")
