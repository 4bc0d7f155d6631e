"""The URL of a SQLite store, read and written: what ``write_url`` gives, ``read_url`` reads as the same path and options."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode, urlsplit

from onward.durations import parse_duration
from onward.errors import InvalidSetting, InvalidTime

PREFIX = "onward_"
TIMEOUT = timedelta(seconds=5)


def read_url(url: str) -> tuple[str, dict[str, Any]]:
    """Read the path, and those options of ``SQLiteStore`` that are given. Raises ``InvalidSetting``."""
    parts = urlsplit(url)
    if parts.netloc:
        raise InvalidSetting(f"{url!r} has two slashes before the path: use sqlite:///file.db (relative) or sqlite:////absolute/file.db")
    path = os.fsdecode(unquote_to_bytes(parts.path))[1:]
    if path in ("", ":memory:") or path.startswith("file:"):
        raise InvalidSetting(f"{url!r} names no file, and SQLite gives each connection a :memory: of its own: use memory://, or a file")
    if "\0" in path:
        raise InvalidSetting(f"{url!r} contains %00, which no file's name may hold")
    if parts.fragment:
        raise InvalidSetting(f"{url!r} contains '#': write it as %23 if it belongs to the file's name")
    options: dict[str, Any] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "prefix":
            options["prefix"] = value
        elif name == "timeout":
            options["timeout"] = _timeout(value)
        elif name == "network_file_system" and value in ("allow", "refuse"):
            options["allow_network_file_system"] = value == "allow"
        else:
            raise InvalidSetting(f"{name}={value} means nothing in {url!r}: known are prefix=, timeout= and network_file_system=allow")
    return path, options


def _timeout(value: str) -> timedelta:
    try:
        return parse_duration(value)
    except InvalidTime as error:
        raise InvalidSetting(f"timeout: {error}") from None


def write_url(path: Path, *, prefix: str, timeout: timedelta, allow_network_file_system: bool) -> str:
    """Write the URL of the file at ``path``, with the options that are not as usual."""
    options = {}
    if prefix != PREFIX:
        options["prefix"] = prefix
    if timeout != TIMEOUT:
        options["timeout"] = f"{timeout.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
    if allow_network_file_system:
        options["network_file_system"] = "allow"
    query = f"?{urlencode(options)}" if options else ""
    return f"sqlite:///{quote(os.fsencode(path), safe='/:@~')}{query}"
