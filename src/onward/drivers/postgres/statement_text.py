"""The statements of one store as psycopg takes them: schema, columns and notifications filled in, parameters in its style."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from onward.drivers.sql.alerts import ALERT_COLUMNS
from onward.drivers.sql.failures import DEAD_LETTER_COLUMNS
from onward.drivers.sql.lookout import WORKER_COLUMNS
from onward.drivers.sql.migrations import fill_in
from onward.drivers.sql.periodic import PERIODIC_COLUMNS
from onward.drivers.sql.placeholders import pyformat
from onward.drivers.sql.rows import ACTION_COLUMNS, ATTEMPT_COLUMNS, COLUMNS
from onward.drivers.sql.statements import load_statements
from onward.jobs import LONGEST_LEASE

NEVER_CLAIMED = ("blocked_by", "finished_at")
"""What is empty in every row that can be claimed."""
INSTANTS = frozenset(
    name
    for name in (*COLUMNS, *ATTEMPT_COLUMNS, *ACTION_COLUMNS, *PERIODIC_COLUMNS, *ALERT_COLUMNS, *WORKER_COLUMNS)
    if name.endswith(("_at", "_until", "_moment"))
)
HIGHEST = 2**63 - 2
"""The highest count that can be raised by one without an error. A row that holds more was written by hand, and is set aside."""
LOCKS_OF_KIND = 1024
"""So many advisory locks stand for all breakers, so many for all serial keys, and so many for all limits: a power of two."""
FILES = tuple(
    f"{name}.sql"
    for name in ["statements", "periodic", "waits", "metrics", "alerts", "lookout", "failures", "attempts", "questions", "examine"]
)
SYNTAX = frozenset({"coalesce", "extract", "greatest", "least", "nullif"})
"""What looks like a call and is a part of the language."""
PLAN_TO_SEEK = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
SLOW_SEARCH = "5 milliseconds"
"""From which on a claim tells where the lanes are, so that the next ones need not search."""
NOW = "pg_catalog.statement_timestamp()"
_SOON = "job.scheduled_at < job.updated_at + interval '1 minute'"
"""An idle worker looks by itself after 30 s. As much again is left for the transaction that enqueues."""
_NAME = re.compile(
    r"""
    '(?:[^']|'')*'                                    # a literal
    | "(?:[^"]|"")*"                                  # a quoted identifier
    | (?<![\w.:"])([a-z_0-9]+)(?=\()                  # a function
    | (?<![\w."])(text|timestamptz|json|uuid|regclass)\b  # a type
    """,
    re.VERBOSE,
)


class StatementText:
    """Every statement by its name, as the store's own connections run it.

    ``raw`` has them with ``:name`` parameters, as they are run in a caller's transaction. Nobody knows how long that will be open, so
    there every job is told of, whenever it is due; ours only tell of those that an idle worker would meet too late.
    """

    def __init__(self, schema: str, *, notify: bool, relaxed: bool = False) -> None:
        self.schema = schema
        self.notifies = notify
        package = files("onward.drivers.postgres")
        text = "\n".join(package.joinpath(name).read_text(encoding="utf-8") for name in FILES)
        waits, which = f"hashtextextended('onward waits {schema}', 0)", f"hashtextextended(name, 0) & {LOCKS_OF_KIND - 1}"
        words = {
            "prefix": f'"{schema}".',
            "columns": _read("job", COLUMNS),
            "column_names": ", ".join(COLUMNS),
            "claimed_columns": ", ".join(f"job.{name}" for name in COLUMNS if name not in NEVER_CLAIMED),
            "attempt_columns": _read("attempt", ATTEMPT_COLUMNS),
            "attempt_finished": as_text("attempt.finished_at"),
            "action_columns": _read("action", ACTION_COLUMNS),
            # Cut, since a notification of 8,000 bytes is an error: a queue's name that long was written by hand.
            "tell": f"pg_notify('{schema}', left(job.queue, 255))::text" if notify else "NULL::text",
            "relaxed": ", set_config('synchronous_commit', 'off', true) AS relaxed" if relaxed else "",
            "highest": str(HIGHEST),
            "longest_lease": f"interval '{LONGEST_LEASE.total_seconds():.0f} seconds'",
            "moment": f"coalesce(:now::text::timestamptz, {NOW})",
            "now_text": as_text(NOW),
            "clock_text": as_text("clock.now"),
            "slow_search": SLOW_SEARCH,
            "claiming": f"hashtextextended('onward claims {schema}', 0)",
            "first_text": as_text("first_at"),
            "next_text": as_text("next.at"),
            "plan_to_seek": ", ".join(f"set_config('{name}', '{value}', true)" for name, value in PLAN_TO_SEEK.items()),
            "finished_at": as_text("job.finished_at"),
            "started_at": as_text("job.started_at"),
            "lease_until": as_text("job.lease_until"),
            "paused_at": as_text("paused.paused_at"),
            "periodic_columns": _read("periodic", PERIODIC_COLUMNS),
            "least_moment": as_text("min(periodic.next_moment)"),
            "newest": as_text("max(job.created_at)"),
            "alert_columns": _read("alert", ALERT_COLUMNS),
            "worker_columns": _read("worker", WORKER_COLUMNS),
            "since_text": as_text("since"),
            "scheduled_text": as_text("job.scheduled_at"),
            "dead_letter_columns": _read("job", DEAD_LETTER_COLUMNS),
            "behind": "(CASE blocked_by WHEN 'breaker' THEN breaker WHEN 'limit' THEN concurrency_key ELSE serial_key END)",
            "lock": f"(hashtextextended(split_part(name, ':', 1), {waits}) & -{LOCKS_OF_KIND} | ({which}))",
            "opened_text": as_text("opened_at"),
            "retry_text": as_text("retry_at"),
            "spent_text": as_text("spent_until"),
            "check_text": as_text("check_at"),
            "oldest_text": as_text("min(scheduled_at)"),
            "at_text": as_text("at"),
            "least_at": as_text("min(moment.at)"),
            "ripe_text": as_text("min(ripe.at)"),
        }
        filling = {word: qualify(value) for word, value in words.items()}
        loaded = {name: fill_in(qualify(sql), filling) for name, sql in load_statements(text).items()}
        self.raw: Mapping[str, str] = {name: sql.replace("{is_soon}", "true") for name, sql in loaded.items()}
        self._styled = {name: pyformat(sql.replace("{is_soon}", _SOON)) for name, sql in loaded.items()}

    def __getitem__(self, name: str) -> str:
        return self._styled[name]

    def begin(self, lock_timeout: float, *, is_own: bool) -> str:
        """The statements that begin a transaction. ``lock_timeout`` is in seconds; ``is_own`` says that only our statements follow."""
        begin = self.raw["begin_own"] if is_own else self.raw["begin"]
        return begin.replace("{lock_timeout}", as_milliseconds(lock_timeout))


def qualify(sql: str) -> str:
    """Write each function and type with its schema, since a connection may look into others before that of Postgres itself.

    Operators stay as they are: nobody could read the statements, and ``onward doctor`` looks whether any is shadowed.
    """
    return _NAME.sub(lambda found: f"pg_catalog.{found[0]}" if (found[1] or found[2]) and found[1] not in SYNTAX else found[0], sql)


def as_milliseconds(seconds: float) -> str:
    """Write a time for a setting of the server's, for which 0 would be no limit."""
    return str(max(round(seconds * 1000), 1))


def as_text(instant: str) -> str:
    """The expression that writes an instant as ISO text in UTC, whatever the session's zone and style of dates are."""
    return f"""to_char({instant} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""


def _read(table: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{as_text(f'{table}.{name}')} AS {name}" if name in INSTANTS else f"{table}.{name}" for name in columns)
