"""Where a claim begins to look, while the beginning of the index is full of what is dead and cannot be cleaned away.

As long as any transaction on the server keeps its snapshot, what has run since then stays in the index in front of what is due. One search
for the lanes (queue and priority) walks past all of it. What it found serves the next claims: they begin there, and see nothing that
came before. So it serves only a while, in proportion to what the search cost, and only claims that it fills; any other one searches anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onward.clock import Clock
from onward.drivers.sql.statements import as_json

SERVES = 10.0
"""How many times as long as the search took."""
MOST = 1000
"""Lanes. More are searched for each time."""


class Lane(msgspec.Struct, array_like=True):
    """As the statement tells of it. ``took`` is how many seconds the search took, of all lanes together."""

    queue: str
    priority: int
    first_at: str
    took: float


class Lanes:
    """What the last searches found, by the queues that were asked for. Several threads may use it: a loser's news is lost, no more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.are_limited = False
        """Some queue had a limit when somebody last looked: then a claim looks first how many more of it may run."""
        self._found: dict[tuple[str, ...], tuple[float, str]] = {}

    def known(self, queues: tuple[str, ...]) -> str | None:
        """What the statement takes as ``lanes``: None where it has to search."""
        until, lanes = self._found.get(queues, (0.0, None))
        return lanes if self._clock.monotonic() < until else None

    def note(self, queues: tuple[str, ...], told: Sequence[str], *, searched: bool) -> None:
        """Keep what a claim has told: of a search that was slow, or of where it stood when it had not searched."""
        lanes = [msgspec.json.decode(one, type=Lane) for one in told]
        if not lanes or len(lanes) > MOST:
            self._found.pop(queues, None)
            return
        until = self._clock.monotonic() + SERVES * lanes[0].took if searched else self._found.get(queues, (0.0, ""))[0]
        self._found[queues] = (until, as_json([[one.queue, one.priority, one.first_at] for one in lanes]))
