"""The claiming thread: settles what ended and claims what there is room for, both in one transaction of the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from onward.admission import Constraint
from onward.clock import Clock
from onward.driver import Store
from onward.errors import OutcomeUnknown
from onward.outcome import Released
from onward.registry import Registry
from onward.turn import Claim, Demand, Settlement, Turn
from onward.worker.executor import Executor
from onward.worker.loop import Idle
from onward.worker.outbox import Outbox
from onward.worker.pace import Pace
from onward.worker.reports import Reports
from onward.worker.run import Run
from onward.worker.slots import Slots
from onward.worker.started import MOST_HELD

logger = logging.getLogger("onward.worker")

LONGEST_REST = 30.0
REST_BEFORE_ASKING_AGAIN = 0.05
"""Seconds, when jobs are due that this worker did not get."""


class Producer:
    """One turn a tick. ``on_drained`` is called when there is nothing left to do and ``drain`` or ``max_jobs`` asks to end then,
    ``on_set_aside`` when jobs of a type that is not known here were moved out of the way.
    """

    name = "producer"

    def __init__(
        self,
        store: Store,
        definitions: Registry,
        slots: Slots,
        executor: Executor,
        outbox: Outbox,
        *,
        clock: Clock,
        reports: Reports,
        lease_owner: str,
        queues: tuple[str, ...] = (),
        poll: float = 1.0,
        drain: bool = False,
        max_jobs: int | None = None,
        on_drained: Callable[[], object] = lambda: None,
        on_set_aside: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._types: dict[str, timedelta] = {}
        self._types_seen = 0
        self._constraints: dict[str, Constraint] = {}
        self._slots = slots
        self._executor = executor
        self._outbox = outbox
        self._clock = clock
        self._reports = reports
        self._lease_owner = lease_owner
        self._queues = queues
        self._poll = poll
        self._drain = drain
        self._jobs_left = max_jobs
        self._on_drained = on_drained
        self._on_set_aside = on_set_aside
        self._pace = Pace()
        self._is_stopping = False
        self._is_in_doubt = False
        self._left_blocked = False
        self._asked_at = 0.0
        self._rests_at_store = False
        self._is_resting = False
        self._bell = threading.Event()
        self._idle = threading.Condition()
        self._ticks = 0
        self._idle_tick = 0

    # -- a turn --------------------------------------------------------------------------------------------------

    def tick(self) -> float:
        """Settle, claim, start. Gives the seconds to rest: none while there is more to do."""
        self._ticks += 1
        self._collect()
        if self._is_in_doubt:
            self._clear_doubt()
        demand = self._demand()
        if demand is None and self._outbox.is_at_rest:
            pause = self._without_demand()
        else:
            turn = self._turn(demand)
            self._left_blocked = turn.leaves_blocked if demand else self._left_blocked
            self._reports.expired(turn.expired)
            if turn.blocked:
                self._on_set_aside()
            self._start(turn.claims)
            pause = self._pause(turn, 0 if demand is None else demand.slots)
        return pause if self._outbox.is_empty else min(pause, max(self._outbox.held_up_for(), 0.0))

    def settle(self) -> None:
        """Settle what ended, and claim nothing. For a worker that stops."""
        self._collect()
        if self._is_in_doubt:
            self._clear_doubt()
        if not self._outbox.is_empty:
            self._turn(None)

    def ask_to_stop(self) -> None:
        """From now on only settle. From any thread."""
        self._is_stopping = True
        self.wake()

    def doubt(self) -> None:
        """A turn was cut short: before the next one, ask the store what is held."""
        self._is_in_doubt = True

    def give_back_unstarted(self) -> None:
        """What was claimed and has not started is given back by the next ``settle``."""
        self._give_back(self._slots.take_waiting())

    @property
    def has_unsettled(self) -> bool:
        return self._is_in_doubt or self._slots.has_ended or not self._outbox.is_empty

    def _collect(self) -> None:
        ended = self._slots.take_ended()
        if ended:
            self._pace.ended(self._clock.monotonic(), [run.seconds for run, _ in ended])
            self._outbox.add(ended)

    def _demand(self) -> Demand | None:
        if self._is_stopping or self._slots.has_too_many_stuck or self._outbox.size >= MOST_HELD:
            return None
        room = min(self._slots.room(self._pace.prefetch(self._clock.monotonic())), MOST_HELD)
        if self._jobs_left is not None:
            room = min(room, self._jobs_left)
        if room <= 0:
            return None
        types = self._known_types()
        return Demand(
            lease_owner=self._lease_owner,
            slots=room,
            types=types,
            queues=self._queues,
            constraints=self._constraints,
            unblocks=self._left_blocked,
        )

    def _known_types(self) -> dict[str, timedelta]:
        """The leases by type; made anew only when a definition was added."""
        if len(self._definitions) != self._types_seen:
            self._types_seen = len(self._definitions)
            self._types = self._definitions.leases()
            self._constraints = self._definitions.constraints()
        return self._types

    def _turn(self, demand: Demand | None) -> Turn:
        self._asked_at = self._clock.monotonic()
        try:
            return self._outbox.turn(demand)
        except OutcomeUnknown:
            self._is_in_doubt = True
            raise

    def _start(self, claims: tuple[Claim, ...]) -> None:
        if not claims:
            return
        runs = []
        for claim in claims:
            run = self._executor.prepare(claim, self._asked_at)
            if run is None:
                self._outbox.add_unstarted(Settlement(claim=claim, outcome=Released()))
                continue
            runs.append(run)
        self._reports.claimed(run.claim for run in runs)
        if self._jobs_left is not None:
            self._jobs_left -= len(runs)
        if self._is_stopping:
            self._give_back(runs)
        else:
            self._slots.start(runs)

    def _pause(self, turn: Turn, wanted: int) -> float:
        """How long to rest, and where: at the store if it had less than there was room for, else until a job ends."""
        is_full = len(turn.claims) >= wanted
        self._rests_at_store = not is_full
        if self._slots.has_ended or not self._outbox.is_at_rest:
            return 0.0
        if is_full:
            # With prefetched jobs ending all the time the room may have grown meanwhile.
            return LONGEST_REST if wanted else self._without_demand()
        poll = LONGEST_REST if self._store.wakes_surely else self._poll
        due = poll if turn.next_due is None else turn.next_due.total_seconds()
        if turn.leaves_blocked:
            due = 0.0
        if self._slots.is_empty and not turn.claims:
            if not turn.leaves_blocked:
                self._note_idle()
            if self._drain and due > 0:
                self._on_drained()
        return min(due if due > 0 or turn.claims else REST_BEFORE_ASKING_AGAIN, poll)

    def _without_demand(self) -> float:
        self._rests_at_store = False
        if self._jobs_left == 0 and self._slots.is_empty and self._outbox.is_empty:
            self._on_drained()
        return Idle(LONGEST_REST if not self._slots.has_too_many_stuck else self._poll)

    # -- claims that nobody was told of --------------------------------------------------------------------------

    def _clear_doubt(self) -> None:
        """After an unknown commit: settle the same outcomes again, then take up what the store says we hold and we do not know."""
        doubtful_since = self._asked_at
        if not self._outbox.is_empty:
            self._turn(None)
        held = self._store.held(self._lease_owner)
        known = self._slots.known() | self._outbox.known()
        leases = self._known_types()
        strays = []
        for job in held:
            if (job.id, job.fence) in known or job.type not in leases:
                continue
            run = self._executor.prepare(Claim(job, leases[job.type]), doubtful_since)
            if run is not None:
                strays.append(run)
        self._is_in_doubt = False
        if strays:
            logger.warning("%d claims of an unknown commit are taken up", len(strays))
        if self._is_stopping:
            self._give_back(strays)
        else:
            self._slots.start(strays)

    def _give_back(self, runs: list[Run]) -> None:
        for run in runs:
            self._outbox.add_unstarted(Settlement(claim=run.claim, outcome=Released()))

    # -- rest ----------------------------------------------------------------------------------------------------

    def rest(self, seconds: float) -> None:
        """Sleep until a job may be due, a running one ends, or the time is over."""
        self._is_resting = True
        try:
            if self._slots.has_ended or self._bell.is_set():
                return
            if self._rests_at_store:
                self._store.wait(timedelta(seconds=seconds))
            else:
                self._bell.wait(seconds)
        finally:
            self._is_resting = False
            self._bell.clear()

    def ring(self) -> None:
        """End the rest: a job has ended. Costs next to nothing when nobody rests."""
        if self._is_resting:
            self._is_resting = False
            self.wake()

    def wake(self) -> None:
        """End the rest, or the next one."""
        self._bell.set()
        if self._rests_at_store:
            self._store.wake()

    # -- for tests and embedders ---------------------------------------------------------------------------------

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait for a turn, begun after this call, that found nothing to do. Says whether there was one in time."""
        with self._idle:
            target = self._ticks + 1
            self._bell.set()
            self._store.wake()
            return self._idle.wait_for(lambda: self._idle_tick >= target, seconds)

    def _note_idle(self) -> None:
        with self._idle:
            self._idle_tick = self._ticks
            self._idle.notify_all()
