"""What shows only after long or after many: ten minutes of four processes, a million jobs, an open transaction, a slow disk."""

from __future__ import annotations

import os
import time

import psycopg

from benchmarks.measures import LONGEST_DRAIN, Figures, fill
from benchmarks.places import Place
from benchmarks.processes import PATIENCE, Failed, NotMeasured, Workers, figures_of, role_in_background, run_role, wait_for_begin, workers
from benchmarks.role import CLAIMER
from tests.torture.injectors import MissingInjector, strace

PORTION = 50_000
"""Jobs that are enqueued at once where a million are to pass."""
DUTY_FAILED = " in a row), next try in "
"""In each line of a worker's log that says that a turn, or another of its duties, failed."""
CLAIMS = 200
"""Claims of ten jobs each, of which one figure is taken."""
SLOWER_MEANWHILE, NORMAL_AGAIN = 5.0, 1.5
"""How much longer a claim may take while a transaction is open, and when it counts as normal once that has ended."""
NORMAL_WITHIN = 120.0
"""Seconds after the end of that transaction."""
DELAY = 5_000
"""Microseconds by which each wait for the slow disk is longer."""


def four_processes(place: Place, *, seconds: float, batch: int) -> Figures:
    """Two processes that drain and two that enqueue one by one without a pause. The latencies are those of the slower producer.

    ``errors`` counts what the enqueues raised, ``failed_turns`` the lines of the workers' log that say so of a duty.
    """
    run_role(place, "ping", count=1)
    with workers(place, processes=2, batch=batch) as at_work:
        probe = at_work.probe
        at_work.wait_for(lambda: probe.count, "a worker was ready")
        with role_in_background(place, "producer", seconds=seconds) as one, role_in_background(place, "producer", seconds=seconds) as other:
            for producer in (one, other):
                wait_for_begin(producer)
            began, before = time.monotonic(), probe.count
            asked = [figures_of(producer, seconds + PATIENCE) for producer in (one, other)]
            drained = (probe.count - before) / (time.monotonic() - began)
            left = place.unfinished()
        enqueued = 1 + sum(each["enqueued"] for each in asked)
        _wait_until_done(place, at_work, int(enqueued))
        return {
            "rate": sum(each["rate"] for each in asked),
            "drained": drained,
            **{name: max(each[name] for each in asked) for name in ("p50_us", "p99_us", "max_us")},
            "errors": sum(each["errors"] for each in asked),
            "failed_turns": float(at_work.lines_with(DUTY_FAILED)),
            "left": float(left),
            "enqueued": enqueued,
            "begun": float(probe.count),
            "processes": float(probe.processes),
        }


def memory(place: Place, *, few: int, many: int, batch: int) -> Figures:
    """Megabytes that one worker process holds after few jobs and after many, and by how many it has ``grown_mb``."""
    fill(place, 0)
    with workers(place, batch=batch) as at_work:
        _work_off(place, at_work, few)
        early = _resident(at_work)
        _work_off(place, at_work, many - few)
        late = _resident(at_work)
        return {"early_mb": early, "late_mb": late, "grown_mb": late - early, "begun": float(at_work.probe.count)}


def _resident(at_work: Workers) -> float:
    """Of the largest process: the supervisor is smaller than what it started."""
    return max(process.memory_info().rss for process in at_work.processes()) / 2**20


def long_transaction(place: Place, *, jobs: int, batch: int) -> Figures:
    """What a claim takes before jobs pass beside a transaction with a snapshot, after they did, and how soon it is normal afterwards."""
    fill(place, 10 * CLAIMS)
    start = _claim(place)
    with psycopg.connect(place.url) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM onward.jobs")
        with workers(place, batch=batch) as at_work:
            _work_off(place, at_work, jobs)
            passed = at_work.probe.count
        run_role(place, "fill", count=10 * CLAIMS)
        end = _claim(place)
    ended = time.monotonic()
    while True:
        run_role(place, "fill", count=10 * CLAIMS)
        after = time.monotonic() - ended
        last = _claim(place)
        if last <= NORMAL_AGAIN * start or after > NORMAL_WITHIN:
            break
        time.sleep(1)
    figures = {"start_p95_us": start, "end_p95_us": end, "end_ratio": end / start}
    return {**figures, "last_p95_us": last, "normal_after_s": after, "passed": float(passed)}


def _claim(place: Place) -> float:
    """Claim all that is there, and leave nothing of it. Microseconds that 95 of 100 claims took at most."""
    figures = run_role(place, "claims", count=CLAIMS)
    if figures["claimed"] != 10 * CLAIMS:
        raise Failed(f"{figures['claimed']} jobs were claimed, not {10 * CLAIMS}")
    place.execute(f"DELETE FROM onward.jobs WHERE status = 'in_progress' AND lease_owner = '{CLAIMER}'")
    return figures["p95_us"]


def on_a_slow_disk(place: Place, *, role: str, seconds: float, callers: int = 1) -> Figures:
    """Requests where each wait for the disk is ``DELAY`` longer. Raises ``NotMeasured`` where strace cannot see to that."""
    try:
        tracer = strace()
    except MissingInjector as reason:
        raise NotMeasured(str(reason)) from None
    slow = ("-e", "trace=fdatasync", "-e", f"inject=fdatasync:delay_enter={DELAY}")
    tracing = (tracer, "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, *slow)
    figures = run_role(place, role, under=tracing, callers=callers, seconds=seconds)
    if figures["p50_us"] < DELAY:
        raise Failed(f"the disk was not slow: half of the requests took less than {figures['p50_us']:.0f} microseconds")
    return figures


def _work_off(place: Place, at_work: Workers, jobs: int) -> None:
    """Enqueue so many in portions, each when the one before is done."""
    done = at_work.probe.count
    for first in range(0, jobs, PORTION):
        portion = min(PORTION, jobs - first)
        run_role(place, "fill", count=portion)
        done += portion
        _wait_until_done(place, at_work, done)


def _wait_until_done(place: Place, at_work: Workers, count: int) -> None:
    at_work.wait_for(lambda: at_work.probe.count >= count and place.unfinished() == 0, f"{count} jobs were done", LONGEST_DRAIN)
