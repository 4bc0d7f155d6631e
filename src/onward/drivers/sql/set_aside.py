"""What happens to rows that cannot be read: each stops only itself."""

from __future__ import annotations

from collections.abc import Sequence

from onward.drivers.sql.rows import UnreadableRow
from onward.drivers.sql.statements import Operation, Statement, as_json


def set_aside(unreadable: Sequence[UnreadableRow], now_text: str) -> Operation[None]:
    """Dead-letter these rows, with the reason, and free their keys."""
    for row in unreadable:
        yield Statement("set_aside", {"id": row.job_id, "error": f"the row cannot be read: {row.reason}", "now": now_text})
    if unreadable:
        yield Statement("free_keys", {"ids": as_json([row.job_id for row in unreadable])})
