"""What must happen at its time although the store may hang: a lease that was not renewed, and a handler that does not end."""

from __future__ import annotations

import logging
from collections.abc import Callable

from onward.clock import Clock
from onward.durations import format_duration
from onward.outcome import StoppedByWorker
from onward.worker.patience import Why, end_of_patience
from onward.worker.reports import Reports
from onward.worker.run import SAFE_SHARE, Run
from onward.worker.slots import Slots

logger = logging.getLogger("onward.worker")


class Deadlines:
    """Asks nobody but the monotonic clock.

    A look that comes much later than was planned tells that the process did not run: a laptop slept, or a handler held up every thread.
    A lease that ran out in that time may still be ours, if all that could take it slept as well; the heartbeat is asking.

    ``shortest`` is the shortest lease or limit that any definition has, in seconds: a run that starts after a look cannot be due
    sooner, and only a cancellation need wake this loop. ``grace`` is how many seconds a handler gets to end once it should. ``on_stuck``
    is called when half of the slots are held by handlers that are given up.
    """

    name = "deadlines"

    def __init__(
        self, slots: Slots, *, clock: Clock, reports: Reports, shortest: float, grace: float, on_stuck: Callable[[], object]
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._reports = reports
        # A limit below half a second is not worth a look in every fraction of it: handlers are given up seconds later.
        self._longest_pause = SAFE_SHARE * max(shortest, 0.6)
        self._grace = grace
        self._on_stuck = on_stuck
        self._was_stuck = False
        self._held_up_since: float | None = None
        self._planned_at: float | None = None

    def tick(self) -> float:
        now = self._clock.monotonic()
        late = 0.0 if self._planned_at is None else now - self._planned_at
        self._planned_at = None
        pause = self._look(now, late)
        self._planned_at = now + pause
        return pause

    def _look(self, now: float, late: float) -> float:
        pauses = [self._longest_pause]
        for run in self._slots.held():
            if now >= run.safe_until and late > (1 - SAFE_SHARE) * run.lease:
                run.oversleep(now)
            if now >= run.safe_until:
                self._lose(run)
                continue
            pauses += [run.safe_until - now, self._watch_end(run, now)]
        self._look_for_stuck_slots(now)
        return max(min(pauses), 0.001)

    def _watch_end(self, run: Run, now: float) -> float:
        """See that a handler ends at its time limit, and when it is cancelled. Gives the seconds until one of them matters next."""
        due = run.due_to_end_at
        if due is not None and now >= due:
            run.ask_to_stop()
        is_apart = run.process is not None
        end = end_of_patience(due_to_end_at=due, cancelled_at=run.cancelled_at, is_apart=is_apart, grace=self._grace)
        if end is None:
            return self._longest_pause
        if now < end.at:
            return (end.at if due is None or now >= due else min(due, end.at)) - now
        limit = format_duration(run.claim.lease if run.definition.timeout is None else run.definition.timeout)
        when = f"at its limit of {limit}" if end.why is Why.LIMIT else f"within {self._grace:g} s of being cancelled"
        what = "its process is killed" if is_apart else "it holds its slot until it does"
        logger.error("job %s (%s) did not end %s; %s", run.claim.id, run.claim.job.type, when, what)
        self._slots.end_early(run, TimeoutError(f"timed out after {limit}") if end.why is Why.LIMIT else StoppedByWorker())
        return self._longest_pause

    def _lose(self, run: Run) -> None:
        if self._slots.lose(run):
            logger.warning("the lease of job %s could not be renewed in time: its outcome will not be sent", run.claim.id)
            self._reports.lease_lost(run.claim, None)

    def _look_for_stuck_slots(self, now: float) -> None:
        has_many = self._slots.has_too_many_stuck
        is_stuck = has_many or self._is_held_up(now)
        if is_stuck and not self._was_stuck:
            if has_many:
                logger.critical("half of the slots are held by handlers that do not end: no new jobs are claimed")
            else:
                logger.critical("a handler that does not end keeps a job waiting that must run alone")
            self._on_stuck()
        self._was_stuck = is_stuck

    def _is_held_up(self, now: float) -> bool:
        """True once a job that must run alone has waited for a handler that is given up, for as long as one is given at its limit."""
        if not self._slots.needs_new_process:
            self._held_up_since = None
            return False
        if self._held_up_since is None:
            self._held_up_since = now
        return now >= self._held_up_since + self._grace
