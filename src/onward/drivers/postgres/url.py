"""The URL of a Postgres store: what is Onward's in it, what is libpq's, and how it is shown."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from onward.drivers.durability import is_relaxed
from onward.durations import parse_duration
from onward.errors import InvalidSetting, InvalidTime
from onward.spelling import nearest

SCHEMA = "onward"
TIMEOUT = timedelta(seconds=5)
CONNECTIONS = 10
OURS = ("schema", "timeout", "connections", "notify", "prepare", "durability")
DRIVERS = ("psycopg", "psycopg2", "asyncpg")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")


def read_url(url: str) -> tuple[str, dict[str, Any]]:
    """Read the connection string for libpq, and those options of ``PostgresStore`` that are given. Raises ``InvalidSetting``.

    The name of a driver, as SQLAlchemy's URLs have it (``postgresql+asyncpg://``), is left out.
    """
    if not url.isprintable():  # libpq would read up to a NUL, and urlsplit leaves line ends out
        raise InvalidSetting("a postgresql:// URL holds a control character or half a character: write it percent-encoded")
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may hold a part of the password
        raise InvalidSetting(
            "the host of a postgresql:// URL cannot be read: [ and ] belong around an IPv6 address, and are percent-encoded in a password"
        ) from None
    if parts.scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise InvalidSetting(f"it must be postgresql://user@host/database, not {parts.scheme}:")
    if "@" in url and not url.count("@") == parts.netloc.count("@") == 1:
        raise InvalidSetting("the user or the password of a postgresql:// URL holds a character that must be percent-encoded: / ? # @ : %")
    driver = parts.scheme.partition("+")[2]
    if driver not in ("", *DRIVERS):
        raise InvalidSetting(f"{parts.scheme}:// names a driver that Onward does not know: write postgresql://")
    if parts.fragment:
        raise InvalidSetting(f"{show_url(url)} contains '#': write it as %23")
    options: dict[str, Any] = {}
    others: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in OURS:
            options |= _read_option(name, value)
        else:
            others.append((name, value))
    conninfo = _join(parts.netloc, parts.path, urlencode(others, quote_via=quote))
    _refuse_what_libpq_cannot_read(conninfo, [name for name, _ in others])
    return conninfo, options


def _read_option(name: str, value: str) -> dict[str, Any]:
    if name == "schema":
        return {name: check_schema(value)}
    if name == "timeout":
        return {name: _timeout(value)}
    if name == "connections":
        return {name: _count(value)}
    return {"relaxed": is_relaxed(value)} if name == "durability" else {name: _switch(name, value)}


def _refuse_what_libpq_cannot_read(conninfo: str, names: list[str]) -> None:
    """Raise ``InvalidSetting``, without anything of the URL but the name of an option: the rest may hold a password."""
    try:
        conninfo_to_dict(conninfo)
    except ProgrammingError as error:
        known = [*OURS, *(option.keyword.decode() for option in Conninfo.get_defaults())]
        for name in names:
            if name not in known and f'"{name}"' in str(error):
                close = nearest(name, known, likeness=0.6)
                meant = f"did you mean {close!r}?" if close else f"known are {', '.join(OURS)}, and those of libpq"
                raise InvalidSetting(f"{name}= means nothing in a postgresql:// URL: {meant}") from None
        reason = re.sub('".*"', "…", str(error).strip(), flags=re.DOTALL)
        raise InvalidSetting(f"a postgresql:// URL cannot be read: {reason}") from None


def show_url(url: str) -> str:
    """Write the URL so that it may be printed: without passwords, and without the options that only tune."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    shown = [(name, value) for name, value in parse_qsl(parts.query) if name not in _SECRET]
    return _join(f"{user}@{host}" if user else host, parts.path, urlencode(shown, quote_via=quote, safe="/"))


def _join(place: str, path: str, query: str) -> str:
    # Not by urlunsplit, which leaves the slashes out where there is no host.
    return f"postgresql://{place}{path}{f'?{query}' if query else ''}"


def write_url(conninfo: str, schema: str) -> str:
    """Write the printable URL of a store."""
    shown = show_url(conninfo)
    return shown if schema == SCHEMA else f"{shown}{'&' if '?' in shown else '?'}schema={schema}"


def check_schema(name: str) -> str:
    """Give the name of a schema back if it can be one. Raises ``InvalidSetting``."""
    if not _SCHEMA.fullmatch(name):
        raise InvalidSetting(f"schema must be letters, digits and _, beginning with a letter or _, not {name!r:.60}")
    return name


def _timeout(value: str) -> timedelta:
    try:
        timeout = parse_duration(value)
    except InvalidTime as error:
        raise InvalidSetting(f"timeout: {error}") from None
    if timeout < timedelta(milliseconds=1):
        raise InvalidSetting("timeout must be at least a millisecond, since 0 would mean no limit to Postgres")
    return timeout


def _count(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 4 and 1 <= int(value) <= 1000):
        raise InvalidSetting(f"connections must be a number from 1 to 1000, not {value!r:.40}")
    return int(value)


def _switch(name: str, value: str) -> bool:
    if value not in ("on", "off"):
        raise InvalidSetting(f"{name} must be on or off, not {value!r:.40}")
    return value == "on"
