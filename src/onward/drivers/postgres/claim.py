"""Claim as an operation on Postgres: one statement takes what is due; what it found and could not take is tidied up after it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from onward.drivers.postgres.lanes import Lanes
from onward.drivers.sql.expire import expire
from onward.drivers.sql.rows import UnreadableRow, read_instant, read_workable_objects, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.drivers.sql.turn import Found, unblock_first
from onward.turn import TYPES_BLOCKED_PER_TURN, Claim, Demand

MOST_TIDIED = TYPES_BLOCKED_PER_TURN
"""Rows that one turn moves out of the way, of each kind; the others wait for the next turn, so that no turn is long."""
FARTHEST_LOOK = 10_000
"""Due rows that a claim passes over because somebody else holds them."""


class Look(msgspec.Struct):
    """What one run of the statement told."""

    is_partial: bool = False
    """Slots are left, and it has not searched for lanes, so that there may be others."""
    expired: list[str] = []
    unknown: list[str] = []
    unreadable: list[UnreadableRow] = []
    is_more_due: bool = False
    is_short: bool = False
    """Slots are left, and rows that are due: those in front were held by others, and took the place of those behind them that are free."""

    @property
    def is_tidy(self) -> bool:
        return not (self.expired or self.unknown or self.unreadable)

    @property
    def is_enough(self) -> bool:
        return self.is_tidy and not (self.is_short or self.is_partial)


def ask(demand: Demand, found: Found, now: str | None, lanes: str | None = None, reach: int = 0) -> Statement:
    """The statement that claims as much as is still wanted. Without ``now`` the database's clock decides.

    ``lanes`` are those to look at; None lets it search. ``reach`` is how many due rows it looks at, at least.
    """
    wanted = demand.slots - len(found.claims)
    return Statement(
        "claim",
        {
            "now": now,
            "queues": as_json(demand.queues) if demand.queues else None,
            "types": as_json({type_: lease.total_seconds() for type_, lease in demand.types.items()}),
            "lease_owner": demand.lease_owner,
            "slots": wanted,
            "limit": max(reach, wanted),
            "lanes": lanes,
        },
    )


def read(rows: list[Row], asked: Statement, demand: Demand, found: Found, lanes: Lanes) -> Look:
    """Take up what the statement gave."""
    told: dict[str, list[Any]] = {one: [] for one in ("claimed", "expired", "unknown", "left", "blocked", "lane", "now", "next")}
    for kind, detail in rows:
        told[kind].append(detail)
    jobs, unreadable = read_workable_objects(told["claimed"])
    jobs.sort(key=lambda job: (-job.priority, job.scheduled_at, job.id))
    found.claims += [Claim(job, demand.types[job.type]) for job in jobs]
    is_more_due = bool(told["left"])
    has_searched = asked.parameters["lanes"] is None
    lanes.note(demand.queues, told["lane"], searched=has_searched)
    found.leaves_blocked = bool(told["blocked"])
    has_room = len(found.claims) < demand.slots
    look = Look(has_room and not has_searched, told["expired"], told["unknown"], unreadable, is_more_due, has_room and is_more_due)
    now, later = read_instant(told["now"][0]), told["next"][0]
    found.next_due = timedelta(0) if look.is_more_due else None if later is None else max(read_instant(later) - now, timedelta(0))
    return look


def claim(demand: Demand, now: datetime, lanes: Lanes) -> Operation[Found]:
    """Claim what is due, the highest priority first, then by scheduled_at and id, over all the demanded queues."""
    found = Found()
    yield Statement("begin_claiming")
    if demand.unblocks:
        yield from unblock_first(demand, now)
    asked = ask(demand, found, write_instant(now), lanes.known(demand.queues))
    look = read((yield asked), asked, demand, found, lanes)
    return (yield from go_on(found, look, demand, now, lanes))


def go_on_anew(before: Found, look: Look, demand: Demand, now: datetime, lanes: Lanes) -> Operation[Found]:
    """``go_on`` in another transaction than that of the look."""
    yield Statement("begin_claiming")
    return (yield from go_on(before, look, demand, now, lanes))


def go_on(before: Found, look: Look, demand: Demand, now: datetime, lanes: Lanes) -> Operation[Found]:
    """Tidy up what a look found and did not take, and look again, farther, until no slot is left or there is nothing more to see.

    Leaves ``before`` as it is: the transaction may have to be done again.
    """
    found = Found(list(before.claims), list(before.expired), before.blocked, before.next_due, before.leaves_blocked)
    reach, aside = demand.slots, 0
    while not look.is_enough:
        yield from set_aside(look.unreadable[:MOST_TIDIED], write_instant(now))
        aside += len(look.unreadable)
        if look.expired:
            found.expired += yield from expire(look.expired[:MOST_TIDIED], write_instant(now))
        if look.unknown:
            unknown = look.unknown[: TYPES_BLOCKED_PER_TURN - found.blocked]
            found.blocked += len(unknown)
            yield Statement("block", {"ids": as_json(unknown), "now": write_instant(now)})
        is_far = max(found.blocked, len(found.expired), aside) >= MOST_TIDIED or (look.is_short and reach >= FARTHEST_LOOK)
        if len(found.claims) >= demand.slots or is_far:
            # Whether more is due is only known by looking.
            found.next_due = timedelta(0) if look.is_more_due or is_far else found.next_due
            break
        # Many at once as soon as rows have to be moved aside; what others hold is passed over in steps.
        reach = max(reach, MOST_TIDIED) if not look.is_tidy else min(max(reach, demand.slots) * 8, FARTHEST_LOOK)
        asked = ask(demand, found, write_instant(now), reach=reach)
        look = read((yield asked), asked, demand, found, lanes)
    found.claims.sort(key=lambda one: (-one.job.priority, one.job.scheduled_at, one.job.id))
    return found
