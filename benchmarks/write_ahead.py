"""What reaches the write-ahead log between two moments: commits and bytes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from benchmarks.places import Place

STATISTICS_WITHIN = 5.0
"""Seconds after which a server's processes have told of what they did."""


class Written:
    """``commits`` and ``size`` in bytes, known once the block has ended."""

    commits = 0
    size = 0


@contextmanager
def written(place: Place) -> Iterator[Written]:
    """Count what this block brings about. For a place at which nobody else is at work."""
    found = Written()
    with _in_sqlite(place, found) if place.store == "sqlite" else _in_postgres(place, found):
        yield found


@contextmanager
def _in_sqlite(place: Place, found: Written) -> Iterator[None]:
    path = place.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        # While somebody reads, the log is only ever added to.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchall()
        page = reader.execute("PRAGMA page_size").fetchone()[0]
        log = Path(f"{path}-wal")
        before = log.stat().st_size if log.exists() else 0
        yield
        found.size = log.stat().st_size - before
        found.commits = sum(_ends_a_transaction(header) for header in _frames(log, before, page))


def _frames(log: Path, begin: int, page: int) -> Iterator[bytes]:
    """The headers of the frames behind this place: 24 bytes before each page (https://www.sqlite.org/fileformat2.html#walformat)."""
    with log.open("rb") as file:
        file.seek(max(begin, 32))
        while header := file.read(24):
            yield header
            file.seek(page, 1)


def _ends_a_transaction(header: bytes) -> bool:
    return header[4:8] != b"\0\0\0\0"


@contextmanager
def _in_postgres(place: Place, found: Written) -> Iterator[None]:
    with psycopg.connect(place.url, autocommit=True) as server:
        before = _position(server), _commits(server)
        yield
        # Backends tell of their commits once a second at most, and at their end.
        commits, until = _commits(server), time.monotonic() + STATISTICS_WITHIN
        while time.monotonic() < until:
            time.sleep(1.1)
            now = _commits(server)
            if now - commits <= 1:  # this question
                break
            commits = now
        found.size = _position(server) - before[0]
        found.commits = commits - before[1]


def _position(server: psycopg.Connection[tuple[int]]) -> int:
    row = server.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").fetchone()
    return row[0] if row else 0


def _commits(server: psycopg.Connection[tuple[int]]) -> int:
    row = server.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return row[0] if row else 0
