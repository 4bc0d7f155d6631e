"""The whole turn as an operation: settle what ended, then claim what is due. How to claim differs, and is handed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from onward.drivers.sql.found import Found
from onward.drivers.sql.rollups import write_rollups
from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.settle import Settled, settle
from onward.drivers.sql.statements import Operation, Statement, as_json
from onward.rollups import Tally
from onward.turn import BLOCKED_PER_TURN, Demand, Settlement, Turn


def turn(
    settlements: Sequence[Settlement],
    demand: Demand | None,
    now: datetime,
    claim: Callable[[Demand, datetime], Operation[Found]],
    tally: Tally | None = None,
) -> Operation[Turn]:
    """One transaction of a worker. Keys that the settlements free and children that they bring can be claimed by the same turn."""
    ended = (yield from settle(settlements, now)) if settlements else Settled()
    if tally is not None:
        yield from write_rollups(tally.add(ended.settled, now))
    if demand is None:
        return Turn(settled=ended.settled, lost=ended.lost)
    found = yield from claim(demand, now)
    return Turn(
        settled=ended.settled,
        lost=ended.lost,
        claims=tuple(found.claims),
        expired=tuple(found.expired),
        next_due=found.next_due,
        blocked=found.blocked,
        leaves_blocked=found.leaves_blocked,
    )


def unblock_first(demand: Demand, now: datetime) -> Operation[None]:
    """Let rows be claimed again that a worker of other jobs has set aside, no more than there are slots for.

    Of the first ``BLOCKED_PER_TURN`` that are found those that come first; sorting more of them would cost each claim more.
    """
    yield Statement("unblock_first", served_by(demand) | {"now": write_instant(now), "most": BLOCKED_PER_TURN, "limit": demand.slots})


def served_by(demand: Demand) -> dict[str, Any]:
    """Which types and queues a demand is for; None stands for every queue."""
    return {"types": as_json(sorted(demand.types)), "queues": as_json(demand.queues) if demand.queues else None}
