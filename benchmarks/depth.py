"""Rows that stand in front of those that are due, with lower ids and a higher priority: what walks past them pays for each."""

from __future__ import annotations

from functools import partial

from benchmarks import measures
from benchmarks.measures import Figures, Measure
from benchmarks.places import Place
from benchmarks.processes import run_role

_LONG_AGO = "'2025-06-01T00:00:00.000000Z'"
# A hundred in each second, in words that both databases know.
_SPREAD = "('2025-06-01T' || (10 + i / 250000 % 14) || ':' || (10 + i / 5000 % 50) || ':' || (10 + i / 100 % 50) || '.000000Z')"
KINDS: dict[str, dict[str, str]] = {
    "future": {"scheduled_at": "'2099-01-01T00:00:00.000000Z'"},
    "finished": {"status": "'completed'", "finished_at": _LONG_AGO},
    "unknown": {"type": "'unknown'", "blocked_by": "'type'"},
    "limited": {"blocked_by": "'limit'", "concurrency_key": "'key' || (i % 1000)"},
    "waiting": {"priority": "0"},
    "due": {"status": "'completed'", "finished_at": _SPREAD},
}
"""Rows of a type that no worker knows are blocked: the first claims have moved them aside. So are those that wait for a limit."""
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
    if kind == "limited":
        _seed_limits(place)
    place.settle_down()


def _seed_limits(place: Place) -> None:
    """A rate for each key, of which nothing comes back for a day."""
    if place.store == "sqlite":
        table, later = "onward_limits", "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '+23 hours')"
        numbers = "(WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT i FROM n)"
    else:
        table, later, numbers = "onward.limits", "now() + interval '23 hours'", "generate_series(0, 999) AS n (i)"
    values = f"'key', 'key' || i, '1/d', 1, {'1' if place.store == 'sqlite' else 'true'}, {later}, {later}, {later}"
    columns = "kind, name, rate, burst, is_by_hand, spent_until, check_at, updated_at"
    place.execute(f"INSERT INTO {table} ({columns}) SELECT {values} FROM {numbers}")


def behind(kinds: tuple[str, ...], rows: int, measure: Measure) -> Measure:
    """The measurement where so many rows of each kind stand in front."""
    return partial(_behind, kinds=kinds, rows=rows, measure=measure)


def _behind(place: Place, *, kinds: tuple[str, ...], rows: int, measure: Measure) -> Figures:
    for kind in kinds:
        seed(place, kind, rows)
    return measure(place)


def seed_rollups(place: Place) -> None:
    """What ten types of jobs have left of the last two hours, each minute in two rows."""
    times = '{"waited":{"97":40,"120":15,"145":5},"ran":{"88":40,"110":15,"140":5}}'
    if place.store == "sqlite":
        table, minute = "onward_rollups", "strftime('%Y-%m-%dT%H:%M', 'now', '-' || m || ' minutes')"
        numbers = "(WITH RECURSIVE n (m) AS (SELECT 0 UNION ALL SELECT m + 1 FROM n WHERE m < 119) SELECT m FROM n)"
        types = "(WITH RECURSIVE t (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM t WHERE k < 9) SELECT k FROM t)"
    else:
        table = "onward.rollups"
        minute = "to_char((now() - m * interval '1 minute') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI')"
        numbers, types = "generate_series(0, 119) AS n (m)", "generate_series(0, 9) AS t (k)"
    for outcome in ("completed", "retried"):
        place.execute(
            f"INSERT INTO {table} (minute, queue, type, outcome, worker, count, histogram) "
            f"SELECT {minute}, 'default', 'type' || k, '{outcome}', 'w', 60, '{times}' FROM {numbers} CROSS JOIN {types}"
        )


def sweeps(place: Place, *, count: int = 20) -> Figures:
    """How long a sweep takes that finds nothing to do."""
    place.settle_down()
    return run_role(place, "sweeps", count=count)


def looks(place: Place, *, count: int = 20) -> Figures:
    """How long a look at the metrics takes, by what is looked at."""
    seed_rollups(place)
    place.settle_down()
    return run_role(place, "looks", count=count)


def claims(place: Place, *, ready: int, count: int = 100) -> Figures:
    """How long a claim of ten jobs takes where so many are ready."""
    measures.fill(place, ready)
    return run_role(place, "claims", count=count)
