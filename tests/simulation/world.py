"""What the simulated processes share: a store, its clock, chance, the history that they write, and the network that fails them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import OnwardError
from tests.torture.history import Event, Kind

T = TypeVar("T")
LEASE = 10.0
LOST_ANSWERS = 0.06
"""The share of calls of the store whose caller is not told what came of them."""


class AnswerLost(Exception):
    """The call was done, or it was not: nobody can tell."""


class Mail(Struct):
    """A message that a dead or frozen process has sent, and that has not arrived yet."""

    what: str
    deliver: Callable[[], object]


class World:
    """One history. ``chance`` decides everything."""

    def __init__(self, store: SQLiteStore, clock: FakeClock, chance: random.Random) -> None:
        self.store = store
        self.clock = clock
        self.chance = chance
        self.events: list[Event] = []
        self.dead: list[tuple[str, list[str]]] = []
        """The owners of dead processes, and what their handlers had begun: what a supervisor may still take back."""
        self.mail: list[Mail] = []
        self.is_healed = False
        """Nothing is lost any more, and nobody dies."""
        self._made = 0

    def say(self, kind: Kind, what: str, **fields: Any) -> None:
        """Write one event, with the store's time."""
        at = self.clock.now().timestamp()
        self.events.append(Event(kind=kind, what=what, at=at, **fields))

    def new_id(self) -> str:
        """Ids sort as they were made."""
        self._made += 1
        return f"{self._made:026d}"

    def call(self, verb: Callable[[], T]) -> T:
        """Ask the store. Raises ``AnswerLost`` at times, and then the call may have been done."""
        if not self.is_healed and self.chance.random() < LOST_ANSWERS:
            is_done = self.chance.random() < 0.5
            if is_done:
                try:
                    verb()
                except OnwardError:
                    is_done = False
            self.say("fault", "answer lost" if is_done else "request lost")
            raise AnswerLost
        return verb()

    def happens(self, share: float) -> bool:
        """Something goes wrong in so many of the cases, until all is healed."""
        return not self.is_healed and self.chance.random() < share
