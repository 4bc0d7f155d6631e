"""Rollups as operations: written by a turn, read, made fewer by the pruner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.ids import new_id
from onward.jobs import Job
from onward.rollups import MERGED_AFTER, MERGED_WITHIN, Histogram, Rollup, Written, minute_of, of_jobs, summed


class _Histograms(msgspec.Struct):
    waited: Histogram = {}
    ran: Histogram = {}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Histograms).decode


def write_rollups(written: Written) -> Operation[None]:
    """Store what a turn counted. What an earlier try may have stored is set right, unless it has been merged since."""
    if written.values:
        yield Statement("write_rollups", {"rows": as_json([_row(one) for one in written.values])})
    if written.corrected:
        yield Statement("correct_rollups", {"rows": as_json([_row(one) for one in written.corrected])})


def count_unsettled(outcome: str, jobs: Sequence[Job], now: datetime) -> Operation[None]:
    """Count what ended without a worker that tells of it: claims that were lost, jobs that expired."""
    if jobs:
        yield from write_rollups(Written(tuple(of_jobs(outcome, jobs, now))))


def rollups(since: datetime) -> Operation[list[Rollup]]:
    """What ended since that minute."""
    return read_rollups((yield Statement("rollups", {"since": minute_of(since)})))


def merge_rollups(now: datetime, kept_for: timedelta | None, limit: int) -> Operation[bool]:
    """Make one row of those of all workers for minutes that nobody writes any more, and delete those past their retention.

    Says whether there may be more than ``limit`` of either.
    """
    is_full = False
    asked = {"since": minute_of(now - MERGED_WITHIN), "before": minute_of(now - MERGED_AFTER), "limit": limit}
    rows = yield Statement("crowded_rollups", asked)
    if rows:
        names = [list(row[:5]) for row in rows]
        yield Statement("delete_rollups", {"rows": as_json(names)})
        # A name of its own: another pruner may merge other rows of the same minute at the same time.
        merged = summed(read_rollups(rows))
        for one in merged:
            one.worker = new_id()
        yield Statement("write_rollups", {"rows": as_json([_row(one) for one in merged])})
        is_full = len(merged) >= limit
    if kept_for is not None:
        before = minute_of(now - max(kept_for, MERGED_AFTER))  # younger ones are not counted into what has ever ended
        pruned = yield Statement("prune_rollups", {"before": before, "limit": limit})
        is_full = is_full or len(pruned) >= limit
    return is_full


def _row(rollup: Rollup) -> list[Any]:
    times = write_histograms(rollup.waited, rollup.ran)
    return [rollup.minute, rollup.queue, rollup.type, rollup.outcome, rollup.worker, rollup.count, times]


def read_rollups(rows: Iterable[Row]) -> list[Rollup]:
    """Make rollups of rows. One whose count is no number was written by hand, and is left out."""
    found = []
    for minute, queue, type_, outcome, worker, count, histogram in rows:
        if not isinstance(count, int):
            continue
        waited, ran = read_histograms(histogram)
        found.append(Rollup(minute=minute, queue=queue, type=type_, outcome=outcome, worker=worker, count=count, waited=waited, ran=ran))
    return found


def read_histograms(text: Any) -> tuple[Histogram, Histogram]:
    """How long runs waited, and how long they took, as ``write_histograms`` wrote it. Nothing of what was written by hand."""
    try:
        times = _decode(text)
    except (msgspec.MsgspecError, TypeError):
        return {}, {}
    return times.waited, times.ran


def write_histograms(waited: Histogram, ran: Histogram) -> str:
    """Both as JSON text."""
    return _encode(_Histograms(waited, ran)).decode()
