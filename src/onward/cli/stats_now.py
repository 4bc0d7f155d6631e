"""How each queue is doing: what waits and runs just now, and what ended lately, as two tables or as JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from onward.cli.output import put, put_json, rough
from onward.cli.tables import Cell, put_table
from onward.presence import living

if TYPE_CHECKING:
    from onward.metrics import Backlog, Flow, Metrics

WAITING_COLUMNS = ("queue", "type", "due", "oldest", "blocked", "running", "dead letters", "drained in")
ENDED_COLUMNS = (
    "queue",
    "type",
    "completed",
    "retried",
    "dead",
    "lost",
    "done/min",
    "success",
    "waited p50",
    "p95",
    "p99",
    "ran p50",
    "p95",
    "p99",
)
SHARES = (0.5, 0.95, 0.99)


def put_now(metrics: Metrics) -> None:
    """Write both tables."""
    put(click.style("How is each queue doing now?", bold=True))
    put(_workers(metrics))
    if metrics.backlog:
        put_table(WAITING_COLUMNS, [_waiting(one, metrics) for one in metrics.backlog])
    else:
        put("nothing waits or runs")
    put()
    put(click.style(f"What ended in the last {rough(metrics.window)}?", bold=True))
    if metrics.flows:
        put_table(ENDED_COLUMNS, [_ended(one) for one in metrics.flows])
    else:
        put("none")


def _workers(metrics: Metrics) -> str:
    alive = len(living(metrics.workers, metrics.at))
    return "no worker is running" if not alive else f"{alive:,} worker{'' if alive == 1 else 's'} running"


def put_now_as_json(metrics: Metrics) -> None:
    """Write a line for each queue and type that has anything to tell."""
    put_json({"question": "now", "rows": rows_of(metrics), "workers": len(living(metrics.workers, metrics.at))})


def rows_of(metrics: Metrics) -> list[dict[str, Any]]:
    """All that is known of each queue and type, in their order; times in seconds."""
    backlog = {one.lane: one for one in metrics.backlog}
    flows = {one.lane: one for one in metrics.flows}
    return [_as_json(lane, backlog.get(lane), flows.get(lane), metrics) for lane in sorted({*backlog, *flows})]


def _as_json(lane: tuple[str, str], waiting: Backlog | None, ended: Flow | None, metrics: Metrics) -> dict[str, Any]:
    oldest = None if waiting is None else waiting.oldest_due_at
    drained = metrics.drained_in(lane)
    return {
        "queue": lane[0],
        "type": lane[1],
        "due": 0 if waiting is None else waiting.due,
        "is_capped": waiting is not None and waiting.is_capped,
        "oldest_due_at": None if oldest is None else oldest.isoformat().replace("+00:00", "Z"),
        "blocked": {} if waiting is None else waiting.blocked,
        "in_progress": 0 if waiting is None else waiting.in_progress,
        "dead_letters": 0 if waiting is None else waiting.dead_letters,
        "drained_in": None if drained is None else drained.total_seconds(),
        "window": metrics.window.total_seconds(),
        "outcomes": {} if ended is None else ended.outcomes,
        "per_minute": 0.0 if ended is None else ended.per_minute,
        "lost_per_minute": 0.0 if ended is None else ended.lost_per_minute,
        "success_rate": None if ended is None else ended.success_rate,
        "waited": None if ended is None else {f"p{share * 100:g}": ended.wait(share) for share in SHARES},
        "ran": None if ended is None else {f"p{share * 100:g}": ended.run(share) for share in SHARES},
    }


def _waiting(one: Backlog, metrics: Metrics) -> list[Cell]:
    from onward.inspection import MOST_COUNTED
    from onward.metrics import shown_count

    drained = metrics.drained_in(one.lane)
    return [
        one.queue,
        one.type,
        shown_count(one.due, is_capped=one.is_capped and bool(one.due)),
        None if one.oldest_due_at is None else rough(metrics.at - one.oldest_due_at),
        ", ".join(f"{shown_count(count, is_capped=count >= MOST_COUNTED)} by {why}" for why, count in sorted(one.blocked.items())) or None,
        one.in_progress,
        one.dead_letters if one.dead_letters < MOST_COUNTED else shown_count(one.dead_letters, is_capped=True),
        None if drained is None else rough(drained),
    ]


def _ended(one: Flow) -> list[Cell]:
    counts = [one.outcomes.get(name, 0) for name in ("completed", "retried", "dead_lettered", "lost")]
    success = one.success_rate
    return [
        one.queue,
        one.type,
        *counts,
        round(one.per_minute, 1),
        None if success is None else f"{success:.1%}",
        *(seconds(one.wait(share)) for share in SHARES),
        *(seconds(one.run(share)) for share in SHARES),
    ]


def seconds(time: float | None) -> str | None:
    """A time in its largest unit, to three digits: ``12ms``, ``1.53s``, ``2m5s``."""
    if time is None:
        return None
    if time < 0.0995:
        return f"{time * 1000:.3g}ms"
    return f"{time:.3g}s" if time < 100 else rough(timedelta(seconds=time))
