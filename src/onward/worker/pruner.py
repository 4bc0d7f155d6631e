"""Deletes finished jobs that are past their retention, and whatever else is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from onward.driver import Store
from onward.portions import HOLD, HOLD_OF_ONE_WRITER, MOST, portion_behind, rest_behind
from onward.pruning import PAGE, Due, Keeping, Walk

FEWEST_GONE = 50
"""Jobs in one commit, however busy the machine: on SQLite a commit takes 0.13 ms, and each of them 0.006 ms."""
LOOK_AGAIN_AFTER = 24 * 60 * 60.0
"""Seconds after which a round begins at the oldest again: what somebody held when it was due was passed."""


class Pruner:
    """A round every ``interval`` seconds. Each tick of it is one short look or commit, and the store is left to others behind it."""

    name = "pruner"

    def __init__(self, store: Store, keeping: Keeping, *, interval: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._retention = keeping.retention
        self._walk = Walk(keeping)
        self._interval = interval
        self._monotonic = monotonic
        self._began_anew = monotonic()
        self._hold = HOLD_OF_ONE_WRITER if store.capabilities.has_one_writer else HOLD
        self._at_once = FEWEST_GONE
        self._ticks = self._round()
        self.rounds = 0
        """That have been ended."""

    def tick(self) -> float:
        try:
            return next(self._ticks)
        except StopIteration:
            self._ticks = self._round()
            self.rounds += 1
            return self._interval
        except BaseException:
            self._ticks = self._round()
            raise

    def _round(self) -> Iterator[float]:
        """Gives the pause behind each step."""
        if self._monotonic() - self._began_anew > LOOK_AGAIN_AFTER:
            self._walk.forget()
            self._began_anew = self._monotonic()
        yield from self._tidying()
        self._walk.begin()
        while (look := self._walk.look) is not None:
            began = self._monotonic()
            rows = self._store.finished(look)
            due = self._walk.due(rows)
            if len(rows) >= look.limit or due is not None:
                yield rest_behind(self._monotonic() - began)
            gone = 0
            for portion in () if due is None else self._portions(due):
                deleted = self._store.delete_finished(portion, relaxed=True)
                gone += deleted.count
                self._at_once = portion_behind(len(portion.ids), deleted.held, self._hold, PAGE, FEWEST_GONE)
                yield rest_behind(deleted.held)
                if not deleted.count:
                    break  # another worker is at these just now
            self._walk.move(rows, gone)
        while self._store.give_back():
            yield rest_behind(self._hold)

    def _tidying(self) -> Iterator[float]:
        limit, has_more = MOST, True
        while has_more:
            began = self._monotonic()
            has_more = self._store.tidy(self._retention, limit=limit)
            took = self._monotonic() - began
            if has_more:
                yield rest_behind(took)
                limit = portion_behind(limit, took, self._hold, PAGE)

    def _portions(self, due: Due) -> Iterator[Due]:
        ids = due.ids
        while ids:
            portion, ids = ids[: self._at_once], ids[self._at_once :]
            yield Due(due.status, due.upto, portion)
