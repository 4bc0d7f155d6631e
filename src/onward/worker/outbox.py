"""Outcomes that are not stored yet. None is lost: a failing store keeps them here, a bad one is replaced and spares its batch."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from onward.clock import Clock
from onward.driver import Store
from onward.errors import StoreError, ValueRefused
from onward.outcome import Completed, DeadLettered
from onward.rollups import Tally
from onward.turn import Demand, Settlement, Turn
from onward.worker.reports import Reports
from onward.worker.run import Run
from onward.worker.slots import Slots

logger = logging.getLogger("onward.worker")

Key = tuple[str, int]
NOTHING = Turn()
SHORTEST_HOLD, LONGEST_HOLD = 0.1, 2.0
"""Seconds before an outcome is sent again that somebody else's transaction held up; doubled each time."""
MOST_SENT_AGAIN = 10
"""Held-up outcomes that are tried in one turn."""
NEVER = 86400.0


class HeldUp(NamedTuple):
    """Until when (monotonic) an outcome is not sent again, and how long that pause is."""

    until: float
    pause: float


class Outbox:
    """Used by the claiming thread alone."""

    def __init__(self, store: Store, slots: Slots, reports: Reports, *, clock: Clock, lease_owner: str) -> None:
        self._store = store
        self._slots = slots
        self._reports = reports
        self._clock = clock
        self._tally = Tally(lease_owner)
        self._settlements: dict[Key, Settlement] = {}
        self._held_up: dict[Key, HeldUp] = {}
        """Those that somebody else's transaction keeps from being stored; each waits before it is sent again, by itself."""
        self._runs: dict[Key, Run] = {}
        """The run behind a settlement; none for a claim that never started."""
        self.settled = 0
        """How many outcomes this worker has stored."""

    @property
    def is_empty(self) -> bool:
        return not self._settlements

    @property
    def is_at_rest(self) -> bool:
        """True when nothing is here that is to be sent now."""
        return len(self._held_up) == len(self._settlements) and self.held_up_for() > 0

    def held_up_for(self) -> float:
        """Seconds until what is held up is sent again; a day when nothing is."""
        now = self._clock.monotonic()
        return min((one.until - now for one in self._held_up.values()), default=NEVER)

    @property
    def size(self) -> int:
        return len(self._settlements)

    def known(self) -> set[Key]:
        """The claims whose outcome is here."""
        return set(self._settlements)

    def add(self, ended: Iterable[tuple[Run, Settlement]]) -> None:
        for run, settlement in ended:
            if settlement.seconds is None and run.seconds is not None:  # its handler ran in another process, or has not ended
                settlement = replace(settlement, seconds=run.seconds)
            self._settlements[run.key] = settlement
            self._runs[run.key] = run

    def add_unstarted(self, settlement: Settlement) -> None:
        self._settlements[settlement.claim.key] = settlement

    def turn(self, demand: Demand | None) -> Turn:
        """One turn of the store with what is here. Raises ``StoreError`` and keeps all of it."""
        self._send_held_up()
        settlements = tuple(one for key, one in self._settlements.items() if key not in self._held_up)
        try:
            turn = self._store.turn(settlements, demand, self._tally) if settlements or demand is not None else NOTHING
        except Exception as error:
            if not settlements or not _is_refusal(error):
                raise
            logger.error("an outcome could not be stored; storing %d of them one by one: %s", len(settlements), error)
            self._store_singly(settlements)
            turn = NOTHING if demand is None else self._store.turn((), demand)
        self._sign_off(turn)
        return turn

    def _send_held_up(self) -> None:
        """Try again those that have waited long enough: each in a turn of its own, so that it delays nobody else."""
        now = self._clock.monotonic()
        due = [key for key, one in self._held_up.items() if one.until <= now]
        for key in due[:MOST_SENT_AGAIN]:
            self._store_singly([self._settlements[key]])
            if key in self._held_up:  # the others are probably held by the same transaction
                break

    def _store_singly(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            for version in _ever_plainer(settlement):
                if version is not settlement and version == settlement:
                    continue
                try:
                    self._sign_off(self._store.turn((version,), tally=self._tally))
                    break
                except Exception as error:
                    if not _is_refusal(error):
                        raise
                    logger.error("the outcome of job %s could not be stored: %s", settlement.claim.id, error)
            else:
                logger.critical("no outcome of job %s can be stored: its lease will run out", settlement.claim.id)
                run = self._take(settlement.claim.key)
                self._slots.forget([] if run is None else [run])

    def _sign_off(self, turn: Turn) -> None:
        settled = [(one, self._take(one.claim.key)) for one in turn.settled]
        lost = [(one, self._take(one.claim.key)) for one in turn.lost]
        self._slots.forget([run for _, run in (*settled, *lost) if run is not None])
        self.settled += len(settled)
        self._reports.settled((settlement, None if run is None else run.seconds) for settlement, run in settled)
        for settlement, run in lost:
            logger.warning("job %s was taken from this worker, or its row is gone: its outcome is not stored", settlement.claim.id)
            self._reports.lease_lost(settlement.claim, None if run is None else run.seconds)
        for settlement in turn.held_up:
            self._hold_up(settlement.claim.key)

    def _hold_up(self, key: Key) -> None:
        before = self._held_up.get(key)
        pause = SHORTEST_HOLD if before is None else min(before.pause * 2, LONGEST_HOLD)
        self._held_up[key] = HeldUp(self._clock.monotonic() + pause, pause)
        if before is None:
            logger.info("the outcome of job %s waits for somebody else's transaction", key[0])

    def _take(self, key: Key) -> Run | None:
        self._settlements.pop(key, None)
        self._held_up.pop(key, None)
        return self._runs.pop(key, None)


def _ever_plainer(settlement: Settlement) -> Iterable[Settlement]:
    """The outcome as it is, then forms of it that leave out what may not be storable: the counts, the progress, the result, all of it."""
    yield settlement
    plain = replace(settlement, processed=0, failed=0)
    yield plain
    plain = replace(plain, progress=None)
    yield plain
    if isinstance(settlement.outcome, Completed):
        yield replace(plain, outcome=Completed(error="result could not be stored: the store refused it"))
    yield replace(plain, outcome=DeadLettered("the outcome of this run could not be stored"), children=())


def _is_refusal(error: Exception) -> bool:
    """True when a value is at fault, and not the store: that one comes back, and everything waits for it."""
    return isinstance(error, ValueRefused) or not isinstance(error, StoreError)
