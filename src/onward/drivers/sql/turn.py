"""The whole turn as an operation: settle what ended, then claim what is due. How to claim differs, and is handed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from onward.drivers.sql.settle import Settled, settle
from onward.drivers.sql.statements import Operation
from onward.jobs import Job
from onward.turn import Claim, Demand, Settlement, Turn


class Found(Struct):
    """What a claim found."""

    claims: list[Claim] = []
    expired: list[Job] = []
    blocked: int = 0
    next_due: timedelta | None = None


def turn(
    settlements: Sequence[Settlement],
    demand: Demand | None,
    now: datetime,
    claim: Callable[[Demand, datetime], Operation[Found]],
) -> Operation[Turn]:
    """One transaction of a worker. Keys that the settlements free and children that they bring can be claimed by the same turn."""
    ended = (yield from settle(settlements, now)) if settlements else Settled()
    if demand is None:
        return Turn(settled=ended.settled, lost=ended.lost)
    found = yield from claim(demand, now)
    return Turn(settled=ended.settled, lost=ended.lost, claims=tuple(found.claims), expired=tuple(found.expired), next_due=found.next_due)
