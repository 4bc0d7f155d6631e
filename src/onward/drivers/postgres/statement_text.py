"""The statements of one store as psycopg takes them: schema, columns and notifications filled in, parameters in its style."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from onward.drivers.sql.placeholders import pyformat
from onward.drivers.sql.rows import ATTEMPT_COLUMNS, COLUMNS
from onward.drivers.sql.statements import load_statements

INSTANTS = frozenset(name for name in (*COLUMNS, *ATTEMPT_COLUMNS) if name.endswith(("_at", "_until")))
HIGHEST = 2**63 - 2
"""The highest count that can be raised by one without an error. A row that holds more was written by hand, and is set aside."""
_MOMENT = "coalesce(:now::text::timestamptz, statement_timestamp())"


class StatementText:
    """Every statement by its name. ``raw`` has them with ``:name`` parameters."""

    def __init__(self, schema: str, *, notify: bool) -> None:
        prefix = f'"{schema}".'
        self.raw: Mapping[str, str] = load_statements(
            files("onward.drivers.postgres").joinpath("statements.sql").read_text(encoding="utf-8"),
            prefix=prefix,
            columns=_read("job", COLUMNS),
            column_names=", ".join(COLUMNS),
            columns_of_none=", ".join(["NULL"] * len(COLUMNS)),
            attempt_columns=_read("attempt", ATTEMPT_COLUMNS),
            # Cut, since a notification of 8,000 bytes is an error: a queue's name that long was written by hand.
            tell=f"pg_notify('{schema}', left(job.queue, 255))::text" if notify else "NULL::text",
            highest=str(HIGHEST),
            moment=_MOMENT,
            now_text=as_text("statement_timestamp()"),
            clock_text=as_text("clock.now"),
            next_text=as_text("next.at"),
            finished_at=as_text("job.finished_at"),
            started_at=as_text("job.started_at"),
            lease_until=as_text("job.lease_until"),
        )
        self._styled = {name: pyformat(sql) for name, sql in self.raw.items()}

    def __getitem__(self, name: str) -> str:
        return self._styled[name]

    def begin(self, lock_timeout: float) -> str:
        """The statements that begin a transaction; ``lock_timeout`` is in seconds."""
        return self.raw["begin"].replace("{lock_timeout}", str(max(round(lock_timeout * 1000), 1)))


def as_text(instant: str) -> str:
    """The expression that writes an instant as ISO text in UTC, whatever the session's zone and style of dates are."""
    return f"""to_char({instant} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""


def _read(table: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{as_text(f'{table}.{name}')} AS {name}" if name in INSTANTS else f"{table}.{name}" for name in columns)
