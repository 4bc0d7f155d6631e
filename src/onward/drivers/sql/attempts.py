"""Attempts of all jobs as operations: a page, along the index of when they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from onward.attempts import AttemptFilter, Attempts, ListedAttempt, Place, begin_of, end_of
from onward.drivers.sql.rows import read_instant, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.outcome import has_form

LISTED_COLUMNS: tuple[str, ...] = tuple(ListedAttempt.__struct_fields__)
PLACE_COLUMNS = tuple(LISTED_COLUMNS.index(name) for name in Place._fields)


def attempts(where: AttemptFilter, limit: int, before: Place | None, looks: int) -> Operation[Attempts]:
    """Read a page, newest first. Looks at no more than ``looks`` of them where a filter may match few."""
    if not _can_match(where) or (before is not None and not has_form(before.job_id)):
        return Attempts()
    begin, end, looks = begin_of(where, before), end_of(where), max(looks, limit)
    stop = (yield from _stop(begin, end, looks)) if where.may_match_rarely else None
    # Twice as many: what ends between the two statements stands in front of what is to be looked at.
    asked = _from(begin) | _until(stop or end) | _narrow(where) | {"limit": limit + 1, "looks": 2 * looks}
    rows = yield Statement("attempts", asked)
    shown = rows[:limit]
    found = tuple(one for row in shown if (one := _read(row)) is not None)
    if len(rows) > limit:
        places = (place for row in reversed(shown) if (place := _place([row[at] for at in PLACE_COLUMNS])) is not None)
        stop = next(places, stop)
    return Attempts(found=found, next=None if stop is None else str(stop), is_capped=stop is not None and len(rows) < limit)


def _stop(begin: Place, end: Place, looks: int) -> Operation[Place | None]:
    """The place of the last attempt to look at. None where there are not so many before the end."""
    rows = yield Statement("attempts_end", _from(begin) | {"skipped": looks - 1})
    places = [place for row in rows if (place := _place(row)) is not None]
    return places[0] if len(places) > 1 and places[1] >= end else None


def _from(begin: Place) -> dict[str, Any]:
    return {"at": write_instant(begin.finished_at), "job_id": begin.job_id, "fence": begin.fence}


def _until(end: Place) -> dict[str, Any]:
    return {"end_at": write_instant(end.finished_at), "end_job_id": end.job_id, "end_fence": end.fence}


def _narrow(where: AttemptFilter) -> dict[str, str | None]:
    return {
        "types": _list(where.types),
        "queues": _list(where.queues),
        "outcomes": _list(where.outcomes),
        "lease_owner": where.lease_owner,
    }


def _list(texts: Sequence[str]) -> str | None:
    return as_json([text for text in texts if has_form(text)]) if texts else None


def _can_match(where: AttemptFilter) -> bool:
    """False where no row can be meant: of a list, one text that a database can hold is enough."""
    lists = (where.types, where.queues, where.outcomes)
    return all(not texts or any(map(has_form, texts)) for texts in lists) and has_form(where.lease_owner or "")


def _place(row: Sequence[Any]) -> Place | None:
    """None for a row that was written by hand, and stands at no place that can be named."""
    finished_at, job_id, fence = row
    try:
        at = read_instant(finished_at)
    except (TypeError, ValueError):
        return None
    is_named = at.tzinfo is not None and isinstance(job_id, str) and isinstance(fence, int) and fence >= 0
    return Place(at, job_id, fence) if is_named else None


def _read(row: Row) -> ListedAttempt | None:
    try:
        return msgspec.convert(dict(zip(LISTED_COLUMNS, row, strict=True)), ListedAttempt)
    except msgspec.ValidationError:  # written by hand
        return None
