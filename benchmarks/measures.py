"""The measurements. Each gives the figures of one subject in one place; who compares them takes the subjects in turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from benchmarks.places import Place, processor_seconds
from benchmarks.probe import WAITS
from benchmarks.processes import PATIENCE, Failed, Workers, figures_of, role_in_background, run_role, wait_for_begin, workers
from benchmarks.write_ahead import written

Figures: TypeAlias = dict[str, float]
Measure: TypeAlias = Callable[[Place], Figures]
IDLE_BEFORE, IDLE_FOR = 4.0, 12.0
LONGEST_DRAIN = 120.0


def one(place: Place, *, seconds: float = 2.0) -> Figures:
    """Requests one by one, each in a commit of its own."""
    return run_role(place, "one", seconds=seconds)


def threads(place: Place, *, callers: int, seconds: float = 2.0) -> Figures:
    """Requests of many threads at once, and commits a job."""
    return run_role(place, "threads", callers=callers, seconds=seconds)


def awaiting(place: Place, *, callers: int, seconds: float = 2.0) -> Figures:
    """Requests of many callers on one event loop."""
    return run_role(place, "awaiting", callers=callers, seconds=seconds)


def bulk(place: Place, *, count: int = 10_000, keyed: bool = False) -> Figures:
    """Many jobs in one call."""
    return run_role(place, "bulk", count=count, keyed=keyed)


def same_tables(place: Place, *, count: int = 10_000) -> Figures:
    """The same rows into the same tables, past us."""
    return run_role(place, "tables", count=count)


def fill(place: Place, count: int, job: str = "async-0") -> None:
    """Store so many jobs, as quickly as it goes."""
    run_role(place, "fill", count=count, job=job)
    place.settle_down()


def drain(place: Place, *, count: int, job: str = "async-0", processes: int = 1, batch: int = 100, room: Path | None = None) -> Figures:
    """Work off what was stored before. From the first handler's begin until nothing is due or runs: a worker's start is left out."""
    fill(place, count, job)
    with workers(place, job=job, processes=processes, batch=batch, room=room) as at_work:
        return _drained(place, at_work, count)


def _drained(place: Place, at_work: Workers, count: int) -> Figures:
    probe = at_work.probe
    at_work.wait_for(lambda: probe.count, "a handler began")
    family = at_work.processes()
    spent = processor_seconds(family)
    at_work.wait_for(lambda: probe.count >= count and place.unfinished() == 0, f"{count} jobs were done", LONGEST_DRAIN)
    took = time.monotonic() - probe.first
    spent = processor_seconds(family) - spent
    memory = max(one.memory_info().rss for one in family) / 2**20
    figures = {"rate": count / took, "cpu_us": spent / count * 1e6, "rss_mb": memory, "processes": float(probe.processes)}
    if probe.count != count:
        figures["ran_again"] = float(probe.count - count)
    return figures


def logged_drain(place: Place, *, count: int, batch: int) -> Figures:
    """A drain, with how many commits and how many bytes of the write-ahead log it takes a job."""
    fill(place, count)
    with written(place) as log, workers(place, batch=batch) as at_work:
        figures = _drained(place, at_work, count)
    return figures | {"commits": log.commits / count, "log_bytes": log.size / count}


def pickup(place: Place, *, count: int = 200, pause: float = 0.05) -> Figures:
    """From before the request of another process to the handler's begin, while the worker idles in between; and what idling costs."""
    run_role(place, "ping", count=1)
    with workers(place) as at_work:
        at_work.wait_for(lambda: at_work.probe.count, "the worker was ready")
        time.sleep(IDLE_BEFORE)
        family = at_work.processes()
        spent = processor_seconds(family)
        time.sleep(IDLE_FOR)
        spent = processor_seconds(family) - spent
        memory = {f"rss_mb_{number}": process.memory_info().rss / 2**20 for number, process in enumerate(family)}
        run_role(place, "ping", count=min(count, WAITS), pause=pause)
        at_work.wait_for(lambda: at_work.probe.count > count, "every job was begun")
        waits = at_work.probe.waits()
    at = {f"p{share}_ms": waits[min(int(len(waits) * share / 100), len(waits) - 1)] * 1e3 for share in (50, 95, 99)}
    return {**at, "max_ms": waits[-1] * 1e3, "idle_cpu_s_per_min": spent * 60 / IDLE_FOR, **memory}


def beside_a_drain(place: Place, *, count: int, seconds: float = 2.0, batch: int = 100) -> Figures:
    """Requests one by one while one worker works off what there is, and how many jobs a second it does meanwhile: ``drained``.

    Where nothing is ``left``, there was too little to work off, and ``drained`` says nothing.
    """
    fill(place, count)
    with workers(place, batch=batch) as at_work:
        at_work.wait_for(lambda: at_work.probe.count, "a handler began")
        with role_in_background(place, "one", seconds=seconds) as producer:
            wait_for_begin(producer)
            began, before = time.monotonic(), at_work.probe.count
            asked = figures_of(producer, seconds + PATIENCE)
            drained = (at_work.probe.count - before) / (time.monotonic() - began)
        return {**asked, "drained": drained, "left": float(place.unfinished())}


def drained_alone(place: Place, *, count: int, batch: int = 100) -> Figures:
    """What one worker does when nobody asks for more meanwhile."""
    return {"drained": drain(place, count=count, batch=batch)["rate"]}


def drain_beside_requests(place: Place, *, count: int, batch: int = 100) -> Figures:
    """How fast a worker works off what there is while a producer asks for more without a pause."""
    fill(place, count)
    with role_in_background(place, "one", seconds=LONGEST_DRAIN) as producer:
        wait_for_begin(producer)
        with workers(place, batch=batch) as at_work:
            at_work.wait_for(lambda: at_work.probe.count >= count, "as many were done as there were", LONGEST_DRAIN)
            rate = at_work.probe.count / (time.monotonic() - at_work.probe.first)
        if producer.poll() is not None:
            raise Failed("the producer ended before the drain")
        return {"rate": rate}


def paced(place: Place, *, pause: float, count: int = 1000) -> Figures:
    """What one request takes that comes now and then."""
    return run_role(place, "ping", count=count, pause=pause)


def middle(many: list[Figures]) -> Figures:
    """The median of each figure over some runs."""
    names = dict.fromkeys(name for one in many for name in one)
    return {name: median([one[name] for one in many if name in one]) for name in names}


def as_json(values: Any) -> str:
    """For a file that another run can be compared with."""
    return json.dumps(values, indent=2, sort_keys=True)
