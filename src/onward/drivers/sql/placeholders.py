"""Rewrites a statement's ``:name`` parameters in the styles that Postgres libraries take.

A name is a letter and then word characters. ``::text`` is a cast and stays, and so does all that stands in quotes, such as ``'HH24:MI'``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_PARAMETER = re.compile(
    r"""
    '(?:[^']|'')*'              # a literal
    | "(?:[^"]|"")*"            # a quoted identifier
    | (?<![:\w]):([A-Za-z]\w*)  # a parameter
    """,
    re.VERBOSE,
)


def pyformat(sql: str) -> str:
    """Write ``:name`` as ``%(name)s``, as psycopg and psycopg2 take it. Every other ``%`` is doubled, also in quotes."""
    return _rewrite(sql.replace("%", "%%"), lambda name: f"%({name})s")


def dollar(sql: str) -> tuple[str, tuple[str, ...]]:
    """Write ``:name`` as ``$1``, as asyncpg takes it, and say which name has which number, from 1. A name that comes twice has one."""
    numbers: dict[str, int] = {}
    rewritten = _rewrite(sql, lambda name: f"${numbers.setdefault(name, len(numbers) + 1)}")
    return rewritten, tuple(numbers)


def _rewrite(sql: str, written: Callable[[str], str]) -> str:
    return _PARAMETER.sub(lambda found: written(found[1]) if found[1] else found[0], sql)
