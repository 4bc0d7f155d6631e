"""A million finished jobs are pruned while others are claimed: how long a claim takes beside it, and without it."""

from __future__ import annotations

from pathlib import Path

from benchmarks import depth
from benchmarks.measures import Figures, fill
from benchmarks.places import Place
from benchmarks.processes import role_in_background, run_role, wait_for_begin

CLAIMED_AT_ONCE = 10


def claims_beside_a_prune(place: Place, *, rows: int, claims: int) -> Figures:
    """While another process prunes as a worker does. Where nothing is ``left`` there was too little to prune, and the rest says nothing."""
    _fill(place, rows, claims)
    with role_in_background(place, "prune") as pruner:
        wait_for_begin(pruner)
        before = _finished(place)
        figures = run_role(place, "claims", count=claims)
        left = _finished(place)
    return figures | {"pruned": float(before - left), "left": float(left)} | _log(place)


def claims_without_it(place: Place, *, rows: int, claims: int) -> Figures:
    """The same beside the same rows, which nobody prunes."""
    _fill(place, rows, claims)
    return run_role(place, "claims", count=claims) | _log(place)


def whole_prune(place: Place, *, rows: int) -> Figures:
    """How many jobs a second one pruner deletes that has the store to itself, and how long others would have waited for it."""
    _fill(place, rows, 0)
    return run_role(place, "prune") | {"left": float(_finished(place))} | _log(place)


def _fill(place: Place, rows: int, claims: int) -> None:
    depth.seed(place, "due", rows)
    fill(place, claims * CLAIMED_AT_ONCE)


def _finished(place: Place) -> int:
    table = "onward_jobs" if place.store == "sqlite" else "onward.jobs"
    return int(place.execute(f"SELECT count(*) FROM {table} WHERE status = 'completed'")[0][0])


def _log(place: Place) -> Figures:
    """How large the write-ahead log beside a file is."""
    if place.store != "sqlite":
        return {}
    log = Path(place.url.removeprefix("sqlite:///") + "-wal")
    return {"log_mb": log.stat().st_size / 2**20 if log.exists() else 0.0}
