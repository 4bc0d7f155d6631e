"""What ``onward doctor`` says about dead rows: whether they are cleaned away, who prevents it, and what they have left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeAlias

from onward.drivers.sql.statements import Statement
from onward.durations import format_duration
from onward.inspection import Finding

Row: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Statement], list[Row]]
"""Runs one of the statements that only look, and gives its rows by the names of their columns."""

OLD = timedelta(minutes=5)
OLD_TRANSACTIONS = 100_000
"""How many transactions a standby may lag behind with what it still needs: minutes, where there are hundreds a second."""
MANY_DEAD = 100_000
LARGE_INDEX = 8 * 1024 * 1024
BYTES_AN_ENTRY = 500
"""An entry of the largest index takes about 100 bytes, and twice as many after splits."""
LARGE_INDEXES = 64 * 1024 * 1024
BYTES_AN_ENTRY_OF_ALL = 300
LARGE_TABLE = 256 * 1024 * 1024
TIMES_TOO_LARGE = 3
FULL_QUEUE = 0.1
SLOWER = "dead rows cannot be cleaned away, and claims become slower and slower"


def vacuum(ask: Ask, schema: str) -> Iterator[Finding]:
    """Whether the server cleans dead rows away by itself."""
    found = {row["name"]: row["setting"] for row in ask(Statement("examine_settings"))}
    never = [f'"{schema}".{table["name"]}' for table in ask(Statement("examine_tables")) if table["is_never_vacuumed"]]
    if found["autovacuum"] == "off":
        yield Finding(
            "autovacuum", "error", "off: dead rows stay, and claims become slower and slower; set autovacuum = on in postgresql.conf"
        )
    elif never:
        for name in never:
            text = f"off for {name}, so that dead rows stay: ALTER TABLE {name} RESET (autovacuum_enabled)"
            yield Finding("autovacuum", "warning", text)
    elif found["track_counts"] == "off":
        yield Finding("autovacuum", "warning", "track_counts is off, so autovacuum cannot know where dead rows are: set track_counts = on")
    else:
        yield Finding("autovacuum", "ok", "on")


def old_transactions(ask: Ask, *, sees_everybody: bool, older_than: timedelta = OLD) -> Iterator[Finding]:
    """Who keeps dead rows from being cleaned away, anywhere in this database."""
    seen = ask(Statement("examine_transactions"))
    is_free = True
    for row in seen:
        if row["seconds"] is not None and row["seconds"] >= older_than.total_seconds():
            age = format_duration(timedelta(seconds=round(row["seconds"])))
        elif row["seconds"] is None and row["transactions"] >= OLD_TRANSACTIONS:
            age = f"{row['transactions']:,} transactions"
        else:
            continue
        is_free = False
        yield Finding("old transactions", "warning", f"{_KEEPERS[row['kind']].format(age=age, **row)}")
    if is_free:
        ages = [row["seconds"] for row in seen if row["seconds"] is not None]
        oldest = f"; the oldest is {max(ages):.0f} s old" if ages else ""
        hidden = "" if sees_everybody else "; those of other roles are hidden from this one, which pg_read_all_stats would show"
        yield Finding("old transactions", "ok", f"none is older than {format_duration(older_than)}{oldest}{hidden}")


_KEEPERS = {
    "session": f"a transaction of process {{name}} ({{who}}) is {{age}} old, so {SLOWER}: end it, or SELECT pg_terminate_backend({{name}})",
    "prepared": f"the prepared transaction {{name}} of {{who}} is {{age}} old, so {SLOWER}: COMMIT PREPARED or ROLLBACK PREPARED it",
    "slot": f"the replication slot {{name}} ({{who}}) needs rows of {{age}} ago, so {SLOWER}: look after its standby, or drop the slot",
    "standby": f"the standby {{who}} (process {{name}}) needs rows of {{age}} ago, so {SLOWER}: end the long query there",
}


def dead_rows(ask: Ask, schema: str) -> Iterator[Finding]:
    """Tables that consist mostly of what is no more, and the sizes of all."""
    tables = ask(Statement("examine_tables"))
    for table in tables:
        if table["dead"] > MANY_DEAD and table["dead"] > table["live"]:
            name = f'"{schema}".{table["name"]}'
            ago = table["vacuumed_seconds_ago"]
            cleaned = "was never cleaned" if ago is None else f"was last cleaned {format_duration(timedelta(seconds=round(ago)))} ago"
            yield Finding(
                "dead rows",
                "warning",
                f"{name} holds {table['dead']:,} dead rows beside {table['live']:,}, and {cleaned}: "
                f"end old transactions, then VACUUM (ANALYZE) {name}",
            )
    sizes = ", ".join(
        f"{table['name']} {_megabytes(table['bytes'])} + {_megabytes(table['index_bytes'])}" for table in tables if table["live"]
    )
    dead = sum(table["dead"] for table in tables)
    yield Finding("sizes", "ok", f"{sizes or 'nothing'} of indexes; {dead:,} dead rows in all")


def table_sizes(ask: Ask, schema: str) -> Iterator[Finding]:
    """A table becomes smaller only where its last pages happen to be empty."""
    is_small = True
    for table in ask(Statement("examine_tables")):
        size, needed = table["page_bytes"], table["live"] * (table["row_bytes"] or 0)
        if table["row_bytes"] is not None and size > LARGE_TABLE and size > TIMES_TOO_LARGE * needed:
            is_small = False
            name = f'"{schema}".{table["name"]}'
            yield Finding(
                "table size",
                "warning",
                f"{name} takes {_megabytes(size)}, and its {table['live']:,} rows need {_megabytes(needed)}: new rows use the rest; "
                f"VACUUM FULL {name} gives it back, and keeps everybody out meanwhile",
            )
    if is_small:
        yield Finding("table size", "ok", "none is much larger than its rows")


def index_sizes(ask: Ask, schema: str) -> Iterator[Finding]:
    """An index never becomes smaller by itself."""
    is_small = True
    indexes = ask(Statement("examine_indexes"))
    for index in indexes:
        if index["entries"] >= 0 and index["bytes"] > LARGE_INDEX and index["bytes"] > BYTES_AN_ENTRY * index["entries"]:
            is_small = False
            yield Finding(
                "index size",
                "warning",
                f"{index['name']} takes {_megabytes(index['bytes'])} for {index['entries']:,} entries: "
                f'REINDEX INDEX CONCURRENTLY "{schema}".{index["name"]} gives the rest back',
            )
    known = [index for index in indexes if index["entries"] >= 0]
    size, entries = sum(index["bytes"] for index in known), sum(index["entries"] for index in known)
    if is_small and size > LARGE_INDEXES and size > BYTES_AN_ENTRY_OF_ALL * entries:
        is_small = False
        yield Finding(
            "index size",
            "warning",
            f"all indexes take {_megabytes(size)} for {entries:,} entries, more than {TIMES_TOO_LARGE} times what they need: "
            f'REINDEX SCHEMA CONCURRENTLY "{schema}" gives the rest back',
        )
    if is_small:
        all_of_them = sum(index["bytes"] for index in indexes)
        yield Finding("index size", "ok", f"none is much larger than its entries; {_megabytes(all_of_them)} in all")


def notification_queue(ask: Ask) -> Iterator[Finding]:
    """Every notification waits until all listening sessions of the server have seen it; when the queue is full, commits fail."""
    used = ask(Statement("examine_queue_of_notifications"))[0]["used"]
    if used > FULL_QUEUE:
        yield Finding(
            "queue of notifications",
            "warning",
            f"{used:.0%} full: a session that listens sits in a transaction, and once the queue is full every enqueue fails; end it",
        )
    else:
        yield Finding("queue of notifications", "ok", f"{used:.0%} full")


def _megabytes(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MB"
