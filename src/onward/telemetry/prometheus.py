"""Metrics as text for a Prometheus server (exposition format 0.0.4), from what the store says: right with any number of processes.

Labels come from bounded sets. The queues and types that were seen first keep labels of their own, and later ones share ``other``: so no
counter goes back, and names that anybody makes up cost no more than a bounded number of series.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from onward.errors import InvalidDefinition
from onward.metrics import Backlog, Lane, Metrics, Total
from onward.presence import living
from onward.rollups import GROWTH, Histogram
from onward.spelling import did_you_mean, shown

MOST_LANES = 200
"""Pairs of queue and type that are told apart."""
OTHER: Lane = ("other", "other")
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds, the upper ends of the buckets of a histogram."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}", re.ASCII)
Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]
"""What is added to the name, the labels, and the value."""


class Metric(Struct, frozen=True):
    """One metric: what it is called unless somebody says otherwise, and what it means."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str


DUE = Metric("onward_jobs_due", "gauge", "Jobs that may run now and wait for a free slot, counted up to 10,000 a queue.")
BLOCKED = Metric("onward_jobs_blocked", "gauge", "Due jobs that wait for others, by what they wait for, counted up to 10,000.")
RUNNING = Metric("onward_jobs_in_progress", "gauge", "Jobs that run.")
DEAD = Metric("onward_jobs_dead_letter", "gauge", "Dead letters that nobody has dealt with yet, the newest 10,000.")
OLDEST = Metric("onward_oldest_due_seconds", "gauge", "How long the oldest due job has been waiting.")
RUNS = Metric("onward_runs_total", "counter", "Runs that have ended, by how: each try counts, and what was lost or expired.")
WAIT = Metric("onward_run_wait_seconds", "histogram", "From when a job was due to when it began. The sum is at most 5 % off.")
TIME = Metric("onward_run_seconds", "histogram", "How long handlers ran. The sum is at most 5 % off.")
WORKERS = Metric("onward_workers", "gauge", "Workers that are running.")
ALL = (DUE, BLOCKED, RUNNING, DEAD, OLDEST, RUNS, WAIT, TIME, WORKERS)


def prometheus_text(
    metrics: Metrics, totals: Sequence[Total], *, names: Mapping[str, str] | None = None, most_lanes: int = MOST_LANES
) -> str:
    """Write the metrics of a store. ``names`` are to be used in place of ours. Raises ``InvalidDefinition``."""
    names = _checked(names or {})
    lane = _lanes(metrics.backlog, totals, most_lanes)
    samples: dict[Metric, Iterable[Sample]] = {
        DUE: _gauge(metrics.backlog, lane, lambda one: one.due),
        BLOCKED: _blocked(metrics.backlog, lane),
        RUNNING: _gauge(metrics.backlog, lane, lambda one: one.in_progress),
        DEAD: _gauge(metrics.backlog, lane, lambda one: one.dead_letters),
        OLDEST: _oldest(metrics, lane),
        RUNS: _runs(totals, lane),
        WAIT: _histogram(totals, lane, lambda one: one.waited),
        TIME: _histogram(totals, lane, lambda one: one.ran),
        WORKERS: [("", (), len(living(metrics.workers, metrics.at)))],
    }
    lines: list[str] = []
    for metric in ALL:
        name = names.get(metric.name, metric.name)
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
        lines += [f"{name}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in samples[metric]]
    return "\n".join(lines) + "\n"


def _checked(names: Mapping[str, str]) -> dict[str, str]:
    ours = [metric.name for metric in ALL]
    for name, other in names.items():
        if name not in ours:
            raise InvalidDefinition(f"names= of metrics: {shown(name)} is none{did_you_mean(str(name), ours)}")
        if not isinstance(other, str) or not _NAME.fullmatch(other):
            raise InvalidDefinition(f"names= of metrics: {shown(other)} can be no name in Prometheus: letters, digits, _ and :")
    used = [names.get(name, name) for name in ours]
    if twice := next((name for name in used if used.count(name) > 1), None):
        raise InvalidDefinition(f"names= of metrics: two of them would be called {twice}")
    return dict(names)


def _lanes(backlog: Iterable[Backlog], totals: Iterable[Total], most: int) -> Callable[[Lane], Lane]:
    """Which lane to show each as. Those that were seen first stay themselves whatever comes later."""
    seen: dict[Lane, str] = {}
    for one in totals:
        seen[one.lane] = min(seen.get(one.lane, one.since), one.since)
    kept = {lane for lane, _ in sorted(seen.items(), key=lambda item: (item[1], item[0]))[:most]}
    for waiting in backlog:  # in the order of their names
        if len(kept) < most:
            kept.add(waiting.lane)
    return lambda lane: lane if lane in kept else OTHER


def _gauge(backlog: Iterable[Backlog], lane: Callable[[Lane], Lane], value: Callable[[Backlog], int]) -> Iterator[Sample]:
    sums: dict[Lane, int] = {}
    for one in backlog:
        sums[lane(one.lane)] = sums.get(lane(one.lane), 0) + value(one)
    for its_lane, count in sorted(sums.items()):
        yield "", _of(its_lane), count


def _blocked(backlog: Iterable[Backlog], lane: Callable[[Lane], Lane]) -> Iterator[Sample]:
    sums: dict[tuple[Lane, str], int] = {}
    for one in backlog:
        for why, count in one.blocked.items():
            sums[lane(one.lane), why] = sums.get((lane(one.lane), why), 0) + count
    for (its_lane, reason), count in sorted(sums.items()):
        yield "", (*_of(its_lane), ("blocked_by", reason)), count


def _oldest(metrics: Metrics, lane: Callable[[Lane], Lane]) -> Iterator[Sample]:
    ages: dict[Lane, float] = {}
    for one in metrics.backlog:
        age = 0.0 if one.oldest_due_at is None else max((metrics.at - one.oldest_due_at).total_seconds(), 0.0)
        ages[lane(one.lane)] = max(ages.get(lane(one.lane), 0.0), age)
    for its_lane, age in sorted(ages.items()):
        yield "", _of(its_lane), age


def _runs(totals: Iterable[Total], lane: Callable[[Lane], Lane]) -> Iterator[Sample]:
    sums: dict[tuple[Lane, str], int] = {}
    for one in totals:
        sums[lane(one.lane), one.outcome] = sums.get((lane(one.lane), one.outcome), 0) + one.count
    for (its_lane, outcome), count in sorted(sums.items()):
        yield "", (*_of(its_lane), ("outcome", outcome)), count


def _histogram(totals: Iterable[Total], lane: Callable[[Lane], Lane], times: Callable[[Total], Histogram]) -> Iterator[Sample]:
    sums: dict[Lane, Histogram] = {}
    for one in totals:
        into = sums.setdefault(lane(one.lane), {})
        for bucket, count in times(one).items():
            into[bucket] = into.get(bucket, 0) + count
    for its_lane, histogram in sorted(sums.items()):
        middles = [(GROWTH ** (bucket + 0.5) / 1e6, count) for bucket, count in histogram.items()]
        for bound in BOUNDS:
            within = sum(count for middle, count in middles if middle <= bound)
            yield "_bucket", (*_of(its_lane), ("le", _number(bound))), within
        total = sum(count for _, count in middles)
        yield "_bucket", (*_of(its_lane), ("le", "+Inf")), total
        yield "_sum", _of(its_lane), sum(middle * count for middle, count in middles)
        yield "_count", _of(its_lane), total


def _of(lane: Lane) -> Labels:
    return (("queue", lane[0]), ("type", lane[1]))


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}" if labels else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(round(float(value), 6))
