"""What happens to rows that cannot be read: each stops only itself."""

from __future__ import annotations

from collections.abc import Sequence

from onward.drivers.sql.rows import UnreadableRow
from onward.drivers.sql.statements import Operation, Statement


def set_aside(unreadable: Sequence[UnreadableRow], now_text: str) -> Operation[None]:
    """Dead-letter these rows, with the reason, and free their keys."""
    for row in unreadable:
        # Bytes are an id that is no text: only a walk over all rows finds it.
        name = {"id": None, "bytes": row.job_id} if isinstance(row.job_id, bytes) else {"id": row.job_id, "bytes": None}
        yield Statement("set_aside", name | {"error": f"the row cannot be read: {row.reason}", "now": now_text})
        yield Statement("free_key", name)
