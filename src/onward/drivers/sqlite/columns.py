"""What stands for the columns of a table in the statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_type_hints

from onward.drivers.sql.alerts import ALERT_COLUMNS
from onward.drivers.sql.failures import DEAD_LETTER_COLUMNS
from onward.drivers.sql.lookout import WORKER_COLUMNS
from onward.drivers.sql.periodic import PERIODIC_COLUMNS
from onward.drivers.sql.rows import ACTION_COLUMNS, ATTEMPT_COLUMNS, COLUMNS
from onward.jobs import Job

BEHIND = "(CASE blocked_by WHEN 'breaker' THEN breaker WHEN 'limit' THEN concurrency_key ELSE serial_key END)"
"""The key that a blocked job waits for, word for word as in the index ``jobs_behind``."""


def column_lists() -> dict[str, str]:
    """What replaces the words in braces: ``{columns}`` of a job, those of other tables, ``{job_object}``, ``{behind}``."""
    return {
        "columns": _plain(COLUMNS),
        "attempt_columns": _plain(ATTEMPT_COLUMNS),
        "action_columns": _plain(ACTION_COLUMNS),
        "periodic_columns": _plain(PERIODIC_COLUMNS),
        "alert_columns": _plain(ALERT_COLUMNS),
        "worker_columns": _plain(WORKER_COLUMNS),
        "dead_letter_columns": _plain(DEAD_LETTER_COLUMNS),
        "behind": BEHIND,
        "job_object": _job_object(),
    }


def _plain(columns: Sequence[str]) -> str:
    # An expression has no declared type, so that a caller's PARSE_DECLTYPES and converters leave it as it is stored.
    return ", ".join(f"+{name}" for name in columns)


def _job_object() -> str:
    """An object of JSON that can be decoded as a ``Job``: its booleans are numbers in the table."""
    booleans = {name for name, kind in get_type_hints(Job).items() if kind is bool}
    written = {name: f"json(iif({name} = 0, 'false', 'true'))" if name in booleans else name for name in COLUMNS}
    pairs = [f"'{name}', {value}" for name, value in written.items()]
    return f"json_object({', '.join(pairs)})"
