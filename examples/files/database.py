"""The application's own connection to the database that the jobs live in, and its view and table there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from onward import Onward


def install(app: Onward) -> None:
    """Make the view and the table, if they are not there."""
    app.store.open()
    with closing(connect(app.store.url)) as connection:
        connection.executescript((Path(__file__).parent / "view.sql").read_text(encoding="utf-8"))


def connect(url: str) -> sqlite3.Connection:
    """Open the file behind ``sqlite:///…``. The caller closes it."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise SystemExit(f"this example keeps its versions beside the jobs in SQLite, not in {parts.scheme}://: give a sqlite:/// URL")
    connection = sqlite3.connect(unquote(parts.path)[1:], timeout=10, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


@contextmanager
def writing(url: str) -> Iterator[sqlite3.Connection]:
    """A write transaction: committed at the end, rolled back on an error."""
    with closing(connect(url)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
