"""The limits of queues as a claim uses them: how many jobs may begin now, and what was spent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from onward.admission import name_of_limit
from onward.drivers.sql.limits import read_limits, write_limits
from onward.drivers.sql.statements import Operation, Statement, as_json
from onward.limit import LimitState


class Rooms(Struct):
    """How many jobs may begin now of each queue that has a limit."""

    states: dict[str, LimitState]
    left: dict[str, int]
    begun: dict[str, int] = {}

    def open(self, queues: Iterable[str]) -> list[str]:
        """Those of these queues that have room."""
        return [queue for queue in queues if self.left.get(queue, 1) > 0]

    def of(self, queue: str, wanted: int) -> int:
        """How many of so many there is room for."""
        return min(wanted, self.left.get(queue, wanted))

    def take(self, queue: str) -> None:
        """One of the queue has begun."""
        if queue in self.left:
            self.left[queue] -= 1
            self.begun[queue] = self.begun.get(queue, 0) + 1

    def next_token(self, now: datetime) -> datetime | None:
        """When the rate of a queue that has no room lets the next one begin, the earliest of them."""
        moments = [self.states[queue].taken(self.begun.get(queue, 0), now).next_token(now) for queue, left in self.left.items() if not left]
        return min((one for one in moments if one is not None), default=None)


def rooms_of_queues(now: datetime) -> Operation[Rooms]:
    """Look at the limits of queues, which others do not use until this transaction ends.

    Whoever claims under them waits here, with nothing else to wait for behind it.
    """
    states = yield from read_limits("queue", None)
    if not states:
        return Rooms({}, {})
    yield Statement("await_keys", {"names": as_json(sorted(name_of_limit("queue", name) for name in states))})
    states = yield from read_limits("queue", states)
    changed = [state.now(now) for state in states.values() if state.now(now) != state]
    if changed:
        yield from write_limits(changed, now)
    rows = yield Statement("running_of_queues", {"names": as_json(sorted(states))})
    running: dict[str, int] = dict(rows)
    return Rooms(states, {queue: state.room(running.get(queue, 0), now) for queue, state in states.items()})


def spend(rooms: Rooms, now: datetime) -> Operation[None]:
    """Write down what has begun of the queues whose limit has a rate."""
    spent = [rooms.states[queue].taken(count, now) for queue, count in rooms.begun.items()]
    yield from write_limits([one for one in spent if one != rooms.states[one.name]], now)
