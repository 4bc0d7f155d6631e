"""Rows that stand in front of those that are due, with lower ids and a higher priority: what walks past them pays for each."""

from __future__ import annotations

from functools import partial

from benchmarks import measures
from benchmarks.measures import Figures, Measure
from benchmarks.places import Place
from benchmarks.processes import run_role

_LONG_AGO = "'2025-06-01T00:00:00.000000Z'"
KINDS: dict[str, dict[str, str]] = {
    "future": {"scheduled_at": "'2099-01-01T00:00:00.000000Z'"},
    "finished": {"status": "'completed'", "finished_at": _LONG_AGO},
    "unknown": {"type": "'unknown'", "blocked_by": "'type'"},
}
"""Rows of a type that no worker knows are blocked: the first claims have moved them aside."""
_USUAL = {
    "type": "'async-0'",
    "queue": "'default'",
    "priority": "100",
    "status": "'queued'",
    "payload": "'null'",
    "payload_hash": "'x'",
    "scheduled_at": _LONG_AGO,
    "max_attempts": "3",
    "finished_at": "NULL",
    "blocked_by": "NULL",
    "created_at": _LONG_AGO,
    "updated_at": _LONG_AGO,
}
_INSTANTS = ("scheduled_at", "finished_at", "created_at", "updated_at")


def seed(place: Place, kind: str, rows: int) -> None:
    """Put so many rows of a kind into the tables, which are made if need be."""
    run_role(place, "fill", count=0)
    is_sqlite = place.store == "sqlite"
    values = _USUAL | KINDS[kind]
    if not is_sqlite:
        values |= {name: f"{values[name]}::timestamptz" for name in _INSTANTS}
    first = list(KINDS).index(kind) * 10**9
    last = first + rows - 1
    if is_sqlite:
        table, number = "onward_jobs", "printf('%026d', i)"
        count = f"(WITH RECURSIVE n (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last}) SELECT i FROM n)"
    else:
        table, number, count = "onward.jobs", "lpad(i::text, 26, '0')", f"generate_series({first}::bigint, {last}) AS n (i)"
    place.execute(f"INSERT INTO {table} (id, {', '.join(values)}) SELECT {number}, {', '.join(values.values())} FROM {count}")
    place.settle_down()


def behind(kinds: tuple[str, ...], rows: int, measure: Measure) -> Measure:
    """The measurement where so many rows of each kind stand in front."""
    return partial(_behind, kinds=kinds, rows=rows, measure=measure)


def _behind(place: Place, *, kinds: tuple[str, ...], rows: int, measure: Measure) -> Figures:
    for kind in kinds:
        seed(place, kind, rows)
    return measure(place)


def claims(place: Place, *, ready: int, count: int = 100) -> Figures:
    """How long a claim of ten jobs takes where so many are ready."""
    measures.fill(place, ready)
    return run_role(place, "claims", count=count)
