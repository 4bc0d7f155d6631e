"""The URL of a SQLite store, read and written: what ``write_url`` gives, ``read_url`` reads as the same path and options."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode, urlsplit

from onward.drivers.durability import is_relaxed
from onward.durations import parse_duration
from onward.errors import InvalidSetting, InvalidTime
from onward.settings import safe_url
from onward.spelling import did_you_mean

OPTIONS = ("prefix", "timeout", "network_file_system", "durability")
PREFIX = "onward_"
TIMEOUT = timedelta(seconds=5)


def read_url(url: str) -> tuple[str, dict[str, Any]]:
    """Read the path, and those options of ``SQLiteStore`` that are given. Raises ``InvalidSetting``."""
    shown = safe_url(url)  # what looks like a path may be the URL of a server, with its password
    try:
        parts = urlsplit(url)
        path = os.fsdecode(unquote_to_bytes(os.fsencode(parts.path)))[1:]
    except UnicodeEncodeError:
        raise InvalidSetting(f"{shown!r} contains half a character, which no file's name may hold") from None
    except ValueError:
        raise InvalidSetting(f"{shown!r} cannot be read: use sqlite:///file.db or sqlite:////absolute/file.db") from None
    if parts.netloc:
        raise InvalidSetting(f"{shown!r} has two slashes before the path: use sqlite:///file.db (relative) or sqlite:////absolute/file.db")
    if path in ("", ":memory:") or path.startswith("file:"):
        raise InvalidSetting(f"{shown!r} names no file, and SQLite gives each connection a :memory: of its own: use memory://, or a file")
    if "\0" in path:
        raise InvalidSetting(f"{shown!r} contains %00, which no file's name may hold")
    if parts.fragment:
        raise InvalidSetting(f"{shown!r} contains '#': write it as %23 if it belongs to the file's name")
    options: dict[str, Any] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "prefix":
            options["prefix"] = value
        elif name == "timeout":
            options["timeout"] = _timeout(value)
        elif name == "network_file_system":
            options["allow_network_file_system"] = _permission(value)
        elif name == "durability":
            options["relaxed"] = is_relaxed(value)
        else:
            raise InvalidSetting(f"{name}= means nothing in a sqlite:// URL{did_you_mean(name, OPTIONS)}")
    return path, options


def _permission(value: str) -> bool:
    if value not in ("allow", "refuse"):
        raise InvalidSetting(f"network_file_system must be allow or refuse, not {value!r:.40}")
    return value == "allow"


def _timeout(value: str) -> timedelta:
    try:
        return parse_duration(value)
    except InvalidTime as error:
        raise InvalidSetting(f"timeout: {error}") from None


def write_url(path: Path, *, prefix: str, timeout: timedelta, allow_network_file_system: bool, relaxed: bool) -> str:
    """Write the URL of the file at ``path``, with the options that are not as usual."""
    options = {}
    if prefix != PREFIX:
        options["prefix"] = prefix
    if timeout != TIMEOUT:
        options["timeout"] = f"{timeout.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
    if allow_network_file_system:
        options["network_file_system"] = "allow"
    if relaxed:
        options["durability"] = "relaxed"
    query = f"?{urlencode(options)}" if options else ""
    return f"sqlite:///{quote(os.fsencode(path), safe='/:@~')}{query}"
