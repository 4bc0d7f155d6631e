"""Dead letters as they are looked at many at once: without payloads, by when they became so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC

import msgspec
from msgspec.structs import replace

from onward.drivers.sql.rows import write_instant
from onward.drivers.sql.statements import Operation, Row, Statement, as_json
from onward.inspection import DeadLetter
from onward.outcome import has_form

DEAD_LETTER_COLUMNS: tuple[str, ...] = tuple(DeadLetter.__struct_fields__)
_ID, _FINISHED_AT = DEAD_LETTER_COLUMNS.index("id"), DEAD_LETTER_COLUMNS.index("finished_at")


def dead_letters(types: Sequence[str], queues: Sequence[str], limit: int, before: DeadLetter | None) -> Operation[list[DeadLetter]]:
    """Read a page, those that ended last first. A row that cannot be read was written by hand, and is left out."""
    asked = {"types": _names(types), "queues": _names(queues), "limit": limit}
    at, job_id = (None, None) if before is None else (write_instant(before.finished_at), before.id)
    while True:
        rows = yield Statement("dead_letters", asked | {"at": at, "id": job_id})
        found = list(_read_all(rows))
        if found or len(rows) < limit:
            return found
        at, job_id = rows[-1][_FINISHED_AT], rows[-1][_ID]  # a whole page that cannot be read does not hide those behind it


def _names(names: Sequence[str]) -> str | None:
    return as_json([name for name in names if has_form(name)]) if names else None


def _read_all(rows: Iterable[Row]) -> Iterable[DeadLetter]:
    for row in rows:
        try:
            one = msgspec.convert(dict(zip(DEAD_LETTER_COLUMNS, row, strict=True)), DeadLetter)
        except msgspec.ValidationError:
            continue
        yield one if one.finished_at.tzinfo is not None else replace(one, finished_at=one.finished_at.replace(tzinfo=UTC))
