"""A hundred thousand jobs are cancelled while a worker works on others: what those others wait, without it and beside it."""

from __future__ import annotations

import time

from benchmarks.application import ASIDE
from benchmarks.measures import Figures, fill
from benchmarks.places import Place
from benchmarks.probe import WAITS
from benchmarks.processes import Failed, figures_of, role_in_background, run_role, wait_for_begin, workers

PAUSE = 0.01
"""Seconds between two jobs for the worker: it is mostly idle, and has to be woken, to claim and to begin."""
IDLE_BEFORE = 2.0
LONGEST = 300.0
"""Seconds for the cancellation."""


def beside_a_bulk_cancel(place: Place, *, count: int, keyed: bool = False) -> Figures:
    """From before the request of another process to the handler's begin, while so many jobs of another queue are cancelled.

    The cancellation is stopped half-way and asked for again, which ends the rest. Raises ``Failed`` where the counts do not add up.
    """
    fill_aside(place, count, keyed=keyed)
    with workers(place) as at_work:
        at_work.wait_for(lambda: at_work.probe.count, "the worker was ready")
        time.sleep(IDLE_BEFORE)
        with role_in_background(place, "cancel", count=count // 2) as person, role_in_background(place, "ping", count=WAITS, pause=PAUSE):
            wait_for_begin(person)
            cancelled = figures_of(person, LONGEST)
        waits = at_work.probe.waits()
    found = {name: cancelled[name] for name in ("matched", "done", "recorded")} | {"cancelled": float(_cancelled(place))}
    if set(found.values()) != {count}:
        raise Failed(f"{count} jobs were to be cancelled: {found}")
    return _quantiles(waits) | {"cancel_rate": cancelled["rate"]}


def without_it(place: Place, *, count: int, pings: int, keyed: bool = False) -> Figures:
    """The same beside the same jobs, which nobody cancels."""
    fill_aside(place, count, keyed=keyed)
    with workers(place) as at_work:
        at_work.wait_for(lambda: at_work.probe.count, "the worker was ready")
        time.sleep(IDLE_BEFORE)
        run_role(place, "ping", count=pings, pause=PAUSE)
        at_work.wait_for(lambda: at_work.probe.count > pings, "every job was begun")
        return _quantiles(at_work.probe.waits())


def fill_aside(place: Place, count: int, *, keyed: bool) -> None:
    """Jobs that wait for an hour in a queue of their own, and one for the worker to begin with."""
    run_role(place, "fill", count=count, job=ASIDE, keyed=keyed)
    fill(place, 0)
    run_role(place, "ping", count=1)


def _cancelled(place: Place) -> int:
    table = "onward_jobs" if place.store == "sqlite" else "onward.jobs"
    return int(place.execute(f"SELECT count(*) FROM {table} WHERE status = 'cancelled'")[0][0])


def _quantiles(waits: list[float]) -> Figures:
    at = {f"p{share}_ms": waits[min(int(len(waits) * share / 100), len(waits) - 1)] * 1e3 for share in (50, 95, 99)}
    return {**at, "max_ms": waits[-1] * 1e3, "jobs": float(len(waits))}
