"""Looks for a secret wherever a run has written, but in the payloads of jobs, which are the application's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from tests.torture.store import path_of

COLUMNS = """
SELECT table_schema || '.' || table_name, column_name FROM information_schema.columns WHERE table_schema IN ('onward', 'public')
"""
PAYLOADS = frozenset({("jobs", "payload"), ("onward_jobs", "payload")})


def find_leaks(url: str, log: Path, secret: str) -> tuple[str, ...]:
    """Name every column of the store and every log in which the secret stands."""
    with open(log, errors="replace") as lines:
        found = [f"the log has the secret: {line[:300]!r}" for line in lines if secret in line][:3]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(url), timeout=10)) as connection:
            return (*found, *_in_columns(connection, list(_columns_of_file(connection)), f"'{secret}'"))
    with psycopg.connect(url, connect_timeout=5) as connection:
        return (*found, *_in_columns(connection, connection.execute(COLUMNS).fetchall(), f"'{secret}'"))


def _columns_of_file(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        for row in connection.execute(f"PRAGMA table_info({table})").fetchall():
            yield table, row[1]


def _in_columns(connection: Any, columns: list[tuple[str, str]], literal: str) -> Iterator[str]:
    for table, column in columns:
        if (table.rpartition(".")[2], column) in PAYLOADS:
            continue
        question = f"SELECT count(*) FROM {table} WHERE CAST({column} AS text) LIKE '%' || {literal} || '%'"
        if count := connection.execute(question).fetchone()[0]:
            yield f"{table}.{column} has the secret in {count} rows"
