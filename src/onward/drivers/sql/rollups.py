"""Rollups as operations: written by a turn, read, made fewer by the pruner."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.ids import new_id
from onward.rollups import MERGED_AFTER, MERGED_WITHIN, Histogram, Rollup, Written, minute_of, summed


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


def rollups(since: datetime) -> Operation[list[Rollup]]:
    """What ended since that minute."""
    return _read((yield Statement("rollups", {"since": minute_of(since)})))


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
        merged = summed(_read(rows))
        for one in merged:
            one.worker = new_id()
        yield Statement("write_rollups", {"rows": as_json([_row(one) for one in merged])})
        is_full = len(merged) >= limit
    if kept_for is not None:
        pruned = yield Statement("prune_rollups", {"before": minute_of(now - kept_for), "limit": limit})
        is_full = is_full or len(pruned) >= limit
    return is_full


def _row(rollup: Rollup) -> list[Any]:
    histogram = _encode(_Histograms(rollup.waited, rollup.ran)).decode()
    return [rollup.minute, rollup.queue, rollup.type, rollup.outcome, rollup.worker, rollup.count, histogram]


def _read(rows: Iterable[Row]) -> list[Rollup]:
    found = []
    for minute, queue, type_, outcome, worker, count, histogram in rows:
        try:
            times = _decode(histogram)
        except (msgspec.MsgspecError, TypeError):  # written by hand
            times = _Histograms()
        found.append(
            Rollup(minute=minute, queue=queue, type=type_, outcome=outcome, worker=worker, count=count, waited=times.waited, ran=times.ran)
        )
    return found
