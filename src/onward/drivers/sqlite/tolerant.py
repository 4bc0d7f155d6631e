"""Reads on when somebody has written bytes that are no text."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from onward.drivers.sqlite.vendor_errors import is_undecodable

T = TypeVar("T")


def tolerantly(connection: sqlite3.Connection, work: Callable[[sqlite3.Cursor], T], begin_again: Callable[[], None] | None = None) -> T:
    """Run ``work``; when a text is not UTF-8, once more with such texts as bytes, so that their row alone is set aside."""
    try:
        return work(connection.cursor())
    except sqlite3.OperationalError as error:
        if not is_undecodable(error):
            raise
    if begin_again is not None:
        begin_again()
    connection.text_factory = _text_or_bytes
    try:
        return work(connection.cursor())
    finally:
        connection.text_factory = str


def _text_or_bytes(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored
