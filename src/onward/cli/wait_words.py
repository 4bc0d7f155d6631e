"""Breakers and limits in words: how they stand, what they let through, and how many wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from onward.breaker import BreakerState
from onward.cli.output import relative, utc
from onward.inspection import MOST_COUNTED, KnownLimit
from onward.limit import Limit, LimitState

MOMENT = timedelta(seconds=1)
"""What comes sooner is not worth a date."""


def counted(waiting: int) -> str:
    """How many wait; past the most that are counted only that they are more."""
    return f"{waiting:,}+" if waiting >= MOST_COUNTED else f"{waiting:,}"


def breaker_status(state: BreakerState, now: datetime, *, dates: bool = True) -> str:
    """How a breaker stands; with ``dates`` to the second, or in a few words for a table."""
    if state.status == "closed":
        return "closed"
    opened = "open" if state.opened_at is None else f"open since {_when(state.opened_at, now, dates=dates)}"
    if state.status == "half_open":
        by = f" by job {state.probe_id}" if dates and state.probe_id else ""
        return f"{opened}, being tried now{by}"
    return f"{opened}, tried again {next_try(state, now, dates=dates)}"


def next_try(state: BreakerState, now: datetime, *, dates: bool = True) -> str:
    """When an open breaker lets one job through."""
    if state.retry_at is None or state.retry_at <= now:
        return "with the next of its jobs"
    return f"at {_when(state.retry_at, now)}" if dates else relative(state.retry_at, now)


def limit_rule(limit: Limit) -> str:
    """What a limit says: ``5 at once, 10/s (burst 20)``."""
    said = [] if limit.concurrency is None else [f"{limit.concurrency:,} at once"]
    if limit.rate is not None:
        said.append(limit.rate if limit.burst is None else f"{limit.rate} (burst {limit.burst:,})")
    return ", ".join(said)


def limit_name(state: LimitState) -> str:
    """Of what it is: ``queue mail``, ``key shop:7``."""
    return f"{state.kind} {state.name}"


def limit_use(known: KnownLimit, now: datetime) -> str | None:
    """Why no other job may begin under a limit, such as ``5 of 5 run``. None where one may."""
    state = known.state.now(now)
    if state.room(known.running, now) > 0:
        return None
    if state.limit.concurrency is not None and known.running >= state.limit.concurrency:
        return f"{known.running:,} of {state.limit.concurrency:,} run"
    token = state.next_token(now)
    if token is None or token - now < MOMENT:
        return f"its rate of {state.limit.rate} lets one begin in a moment"
    return f"its rate of {state.limit.rate} lets one begin at {_when(token, now)}"


def _when(moment: datetime, now: datetime, *, dates: bool = True) -> str:
    return f"{utc(moment)} ({relative(moment, now)})" if dates else relative(moment, now)
