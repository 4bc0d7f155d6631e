"""Claim as an operation on Postgres: one statement takes what is due; what it found and could not take is tidied up after it.

Jobs that may have to wait for others are found by it and not taken: they are asked about behind it, under their keys. The places that they
would take are kept for them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from onward.drivers.postgres.lanes import Lanes
from onward.drivers.sql.expire import expire
from onward.drivers.sql.found import Found
from onward.drivers.sql.rooms import Rooms, rooms_of_queues, spend
from onward.drivers.sql.rows import UnreadableRow, read_instant, read_workable_objects, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.drivers.sql.turn import unblock_first
from onward.drivers.sql.waits import admit_rows, let_ripe, next_ripe
from onward.turn import BLOCKED_PER_TURN, Claim, Demand

MOST_TIDIED = BLOCKED_PER_TURN
"""Rows that one turn moves out of the way, of each kind; the others wait for the next turn, so that no turn is long."""
FARTHEST_LOOK = 10_000
"""Due rows that a claim passes over because somebody else holds them."""
MOST_LOOKS = 25
"""In one transaction. Behind a queue with room for one each refused row costs a look of its own, and others wait meanwhile who claim under
limits of queues: 400 looks took 1.2 s. The next turn goes on behind the rows that were moved aside."""
ASKED_AT_ONCE = 100
"""Rows that are asked about together, once some were refused."""
MOST_ASIDE = 400
"""Rows that are refused, or passed over, in one turn: the server keeps a lock for each key until its end, of some thousands in all."""
SOON = timedelta(milliseconds=20)
"""After which to look again for jobs over whose keys another claim judges in this moment."""
TOLD = ("claimed", "expired", "unknown", "left", "blocked", "lane", "now", "next", "shares", "limited", "ripe")
"""The kinds of rows that the statement gives."""


class Look(msgspec.Struct):
    """What one run of the statement told."""

    is_partial: bool = False
    """Slots are left, and it has not searched for lanes, so that there may be others."""
    expired: list[str] = []
    unknown: list[str] = []
    unreadable: list[UnreadableRow] = []
    shares: list[tuple[str, str]] = []
    """Id and type of those that have to be asked about, in the order to run them."""
    is_more_due: bool = False
    is_short: bool = False
    """Slots are left, and rows that are due: those in front were held by others, and took the place of those behind them that are free."""
    is_limited: bool = False
    """Some queue has a limit, and nobody has looked how many more of it may run."""
    is_ripe: bool = False
    """A breaker or a limit lets others go on by now."""

    @property
    def is_tidy(self) -> bool:
        return not (self.expired or self.unknown or self.unreadable or self.shares)

    @property
    def is_enough(self) -> bool:
        return self.is_tidy and not (self.is_short or self.is_partial or self.is_ripe or self.is_limited)


def ask(
    demand: Demand,
    found: Found,
    now: str | None,
    lanes: str | None = None,
    reach: int = 0,
    rooms: Rooms | None = None,
    passed: int = 0,
    *,
    takes: bool = True,
) -> Statement:
    """The statement that claims as much as is still wanted. Without ``now`` the database's clock decides.

    ``lanes`` are those to look at; None lets it search. ``reach`` is how many due rows it looks at, at least. Without ``rooms`` nothing is
    taken where any queue has a limit: what is behind a limited queue must not be taken before it is known what is let of it. ``passed``
    rows have been asked about, and are in the way. Where it does not take, it tells of so many rows.
    """
    wanted = demand.slots - len(found.claims) if takes else 0
    return Statement(
        "claim",
        {
            "now": now,
            "queues": as_json(demand.queues) if demand.queues else None,
            "types": _types(demand),
            "lease_owner": demand.lease_owner,
            "slots": wanted,
            "limit": max(reach, wanted + passed),
            "lanes": lanes,
            "rooms": None if rooms is None else as_json(rooms.left),
            "passed": passed,
        },
    )


def _types(demand: Demand) -> str:
    return as_json({type_: lease.total_seconds() for type_, lease in demand.types.items()})


def read(rows: list[Row], asked: Statement, demand: Demand, found: Found, lanes: Lanes) -> Look:
    """Take up what the statement gave."""
    told: dict[str, list[Any]] = {one: [] for one in TOLD}
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
    now, later, ripe = read_instant(told["now"][0]), told["next"][0], told["ripe"][0]
    ripe_at = None if ripe is None else read_instant(ripe)
    look = Look(
        is_partial=has_room and not has_searched,
        expired=told["expired"],
        unknown=told["unknown"],
        unreadable=unreadable,
        shares=[tuple(msgspec.json.decode(one)) for one in told["shares"]],
        is_more_due=is_more_due,
        is_short=has_room and is_more_due,
        is_limited=bool(told["limited"]),
        is_ripe=ripe_at is not None and ripe_at <= now,
    )
    found.next_due = timedelta(0) if look.is_more_due else None if later is None else max(read_instant(later) - now, timedelta(0))
    if not look.is_ripe:
        found.look_again(ripe_at, now)
    return look


def claim(demand: Demand, now: datetime, lanes: Lanes) -> Operation[Found]:
    """Claim what is due, the highest priority first, then by scheduled_at and id, over all the demanded queues."""
    found = Found()
    yield Statement("begin_claiming")
    if demand.unblocks:
        yield from unblock_first(demand, now)
    rooms = (yield from rooms_of_queues(now)) if lanes.are_limited else None
    asked = ask(demand, found, write_instant(now), lanes.known(demand.queues), rooms=rooms)
    look = read((yield asked), asked, demand, found, lanes)
    return (yield from go_on(found, look, demand, now, lanes, rooms))


def go_on_anew(before: Found, look: Look, demand: Demand, now: datetime, lanes: Lanes) -> Operation[Found]:
    """``go_on`` in another transaction than that of the look."""
    yield Statement("begin_claiming")
    return (yield from go_on(before, look, demand, now, lanes))


def go_on(before: Found, look: Look, demand: Demand, now: datetime, lanes: Lanes, rooms: Rooms | None = None) -> Operation[Found]:
    """Tidy up what a look found and did not take, and look again, farther, until no slot is left or there is nothing more to see.

    Leaves ``before`` as it is: the transaction may have to be done again.
    """
    found = replace(before, claims=list(before.claims), expired=list(before.expired))
    lanes.are_limited = lanes.are_limited or look.is_limited
    passed: set[str] = set()
    reach, aside, looks = demand.slots, 0, 0
    begun = _take_rooms(rooms, found, 0)
    has_ripened = False
    while not look.is_enough:
        if look.is_ripe:
            yield from let_ripe(now)
            has_ripened = True
        if look.is_limited:
            rooms = yield from rooms_of_queues(now)
        yield from set_aside(look.unreadable[:MOST_TIDIED], write_instant(now))
        aside += len(look.unreadable)
        if look.expired:
            found.expired += yield from expire(look.expired[:MOST_TIDIED], write_instant(now))
        if look.unknown:
            unknown = look.unknown[: BLOCKED_PER_TURN - found.blocked]
            found.blocked += len(unknown)
            yield Statement("block", {"ids": as_json(unknown), "now": write_instant(now)})
        shares = [one for one in look.shares if one[0] not in passed]
        if shares:
            passed.update((yield from _claim_shares(shares, demand, found, now)))
        begun = _take_rooms(rooms, found, begun)
        is_far = max(found.blocked, len(found.expired), aside) >= MOST_TIDIED or (look.is_short and reach >= FARTHEST_LOOK)
        looks += 1
        is_far = is_far or looks >= MOST_LOOKS or max(found.refused, len(passed)) >= MOST_ASIDE
        if len(found.claims) >= demand.slots or is_far:
            # Whether more is due is only known by looking.
            found.next_due = timedelta(0) if look.is_more_due or look.shares or is_far else found.next_due
            break
        # Many at once as soon as rows have to be moved aside; what others hold is passed over in steps.
        reach = max(reach, MOST_TIDIED) if not look.is_tidy else min(max(reach, demand.slots) * 8, FARTHEST_LOOK)
        is_wide = found.refused > 0
        in_the_way = len(passed) + (ASKED_AT_ONCE if is_wide else 0)
        asked = ask(demand, found, write_instant(now), reach=reach, rooms=rooms, passed=in_the_way, takes=not is_wide)
        look = read((yield asked), asked, demand, found, lanes)
        begun = _take_rooms(rooms, found, begun)
        look.shares = [one for one in look.shares if one[0] not in passed]
        look.is_ripe = look.is_ripe and not has_ripened
    if rooms is not None:
        lanes.are_limited = bool(rooms.states)
        yield from spend(rooms, now)
        found.look_again(rooms.next_token(now), now)
    if found.refused or has_ripened:
        found.look_again((yield from next_ripe(now)), now)
    if passed:
        found.look_again(now + SOON, now)
    found.claims.sort(key=lambda one: (-one.job.priority, one.job.scheduled_at, one.job.id))
    return found


def _claim_shares(shares: list[tuple[str, str]], demand: Demand, found: Found, now: datetime) -> Operation[list[str]]:
    """Claim those of these rows that are let. Gives those over whose keys another claim judges in this moment."""
    admitted = yield from admit_rows(shares, demand.constraints, now, room=demand.slots - len(found.claims))
    found.refused += len(admitted.aside)
    if admitted.let:
        asked = {"ids": as_json(admitted.let), "types": _types(demand), "lease_owner": demand.lease_owner, "now": write_instant(now)}
        jobs, unreadable = read_workable_objects([row[0] for row in (yield Statement("claim_let", asked))])
        yield from set_aside(unreadable, write_instant(now))
        found.claims += [Claim(job, demand.types[job.type]) for job in jobs]
    return list(admitted.passed_over)


def _take_rooms(rooms: Rooms | None, found: Found, begun: int) -> int:
    """Count what was claimed since then in the queues that have a limit. Gives how many are counted by now."""
    for one in found.claims[begun:]:
        if rooms is not None:
            rooms.take(one.job.queue)
    return len(found.claims)
