"""Renews the leases of what this worker holds, in a thread that neither handlers nor the event loop can hold up."""

from __future__ import annotations

import logging
from collections.abc import Callable

from onward.clock import Clock
from onward.driver import Store
from onward.turn import Extension
from onward.worker.loop import Idle
from onward.worker.pulse import Pulse
from onward.worker.reports import Reports
from onward.worker.run import Run
from onward.worker.slots import Slots

logger = logging.getLogger("onward.worker")


class Heartbeat:
    """Looks each ``poll`` seconds, and asks nobody while nothing runs.

    Renews a lease when a third of it is over, and sends progress on the way. ``on_cancel`` is called when a handler was told to end.
    """

    name = "heartbeat"

    def __init__(
        self,
        store: Store,
        slots: Slots,
        pulse: Pulse,
        *,
        clock: Clock,
        lease_owner: str,
        reports: Reports,
        poll: float = 1.0,
        on_cancel: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._slots = slots
        self._pulse = pulse
        self._clock = clock
        self._lease_owner = lease_owner
        self._reports = reports
        self._on_cancel = on_cancel
        self._pause = min(poll, pulse.interval)

    def tick(self) -> float:
        self._pulse.look()
        held = self._slots.held()
        if not held:
            self._pulse.beat()
            return Idle(self._pause)  # what begins in the meantime may be cancelled
        now = self._clock.monotonic()
        due = [run for run in held if self._is_due(run, now)]
        if due:
            self._renew(due, now)
        self._pulse.beat()
        asked = set(due)
        self._look_for_cancellations([run for run in held if run not in asked and now - run.claimed_at >= self._pause])
        return self._pause

    def _is_due(self, run: Run, now: float) -> bool:
        return run.is_held_up or now - run.renewed_at + self._pause > run.lease / 3 or run.context.reported is not run.sent_progress

    def _renew(self, due: list[Run], now: float) -> None:
        progress = [run.context.reported for run in due]
        extended = self._store.extend([Extension(run.claim, reported) for run, reported in zip(due, progress, strict=True)])
        lost = [run for run in due if run.claim.id in extended.lost]
        for run, reported in zip(due, progress, strict=True):
            if run.claim.id in extended.lost:
                continue
            run.renewed_at = now
            run.is_held_up = run.claim.id in extended.held_up
            if not run.is_held_up:
                run.sent_progress = reported
            if run.claim.id in extended.cancel_requested:
                self._cancel(run)
        for run in lost:  # last, since whoever is told of it may be slow
            self._lose(run)

    def _look_for_cancellations(self, runs: list[Run]) -> None:
        if not runs:
            return
        asked = self._store.cancel_requested(self._lease_owner)
        for run in runs:
            if run.claim.id in asked:
                self._cancel(run)

    def _cancel(self, run: Run) -> None:
        if run.cancel_requested_at is None:
            self._slots.cancel(run, self._clock.now(), self._clock.monotonic())
            self._on_cancel()

    def _lose(self, run: Run) -> None:
        if self._slots.lose(run):
            logger.warning("job %s was taken from this worker, or its row is gone: its outcome will not be sent", run.claim.id)
            self._reports.lease_lost(run.claim, None)
