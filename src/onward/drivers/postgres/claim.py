"""Claim as an operation on Postgres: one statement takes what is due; what it found and could not take is tidied up after it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from onward.drivers.sql.expire import expire
from onward.drivers.sql.rows import UnreadableRow, read_instant, read_workable, write_instant
from onward.drivers.sql.set_aside import set_aside
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.drivers.sql.turn import Found
from onward.turn import TYPES_BLOCKED_PER_TURN, Claim, Demand


class Look(msgspec.Struct):
    """What one run of the statement told."""

    expired: list[str] = []
    unknown: list[str] = []
    unreadable: list[UnreadableRow] = []
    is_more_due: bool = False

    @property
    def is_tidy(self) -> bool:
        return not (self.expired or self.unknown or self.unreadable)


def ask(demand: Demand, found: Found, now: datetime | None) -> Statement:
    """The statement that claims as much as is still wanted. Without ``now`` the database's clock decides."""
    wanted = demand.slots - len(found.claims)
    return Statement(
        "claim",
        {
            "now": None if now is None else write_instant(now),
            "queues": as_json(demand.queues) if demand.queues else None,
            "types": as_json({type_: lease.total_seconds() for type_, lease in demand.types.items()}),
            "lease_owner": demand.lease_owner,
            "slots": wanted,
            # Many at once as soon as unknown types have to be moved aside.
            "limit": max(TYPES_BLOCKED_PER_TURN, wanted) if found.blocked else wanted,
        },
    )


def read(rows: list[Row], demand: Demand, found: Found) -> Look:
    """Take up what the statement gave."""
    told: dict[str, list[Any]] = {"expired": [], "unknown": [], "left": [], "now": [], "next": []}
    claimed = []
    for kind, detail, *columns in rows:
        if kind == "claimed":
            claimed.append(tuple(columns))
        else:
            told[kind].append(detail)
    jobs, unreadable = read_workable(claimed)
    jobs.sort(key=lambda job: (-job.priority, job.scheduled_at, job.id))
    found.claims += [Claim(job, demand.types[job.type]) for job in jobs]
    look = Look(told["expired"], told["unknown"], unreadable, bool(told["left"]))
    now, later = read_instant(told["now"][0]), told["next"][0]
    found.next_due = timedelta(0) if look.is_more_due else None if later is None else max(read_instant(later) - now, timedelta(0))
    return look


def claim(demand: Demand, now: datetime) -> Operation[Found]:
    """Claim what is due, the highest priority first, then by scheduled_at and id, over all the demanded queues."""
    found = Found()
    look = read((yield ask(demand, found, now)), demand, found)
    yield from go_on(found, look, demand, now)
    return found


def go_on(found: Found, look: Look, demand: Demand, now: datetime) -> Operation[None]:
    """Tidy up what a look found and did not take, and look again, until there is nothing to tidy or no slot is left."""
    while not look.is_tidy:
        yield from set_aside(look.unreadable, write_instant(now))
        if look.expired:
            found.expired += yield from expire(look.expired, write_instant(now))
        if look.unknown:
            unknown = look.unknown[: TYPES_BLOCKED_PER_TURN - found.blocked]
            found.blocked += len(unknown)
            yield Statement("block", {"ids": as_json(unknown), "now": write_instant(now)})
        if len(found.claims) >= demand.slots or found.blocked >= TYPES_BLOCKED_PER_TURN:
            # Whether more is due is only known by looking.
            found.next_due = timedelta(0) if look.is_more_due or found.blocked >= TYPES_BLOCKED_PER_TURN else found.next_due
            return
        look = read((yield ask(demand, found, now)), demand, found)
