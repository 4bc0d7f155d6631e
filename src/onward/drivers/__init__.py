"""Backends, and ``connect``: the only map from a URL's scheme to a driver. Imports on demand."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from onward.durations import parse_duration
from onward.errors import InvalidSetting, InvalidTime

if TYPE_CHECKING:
    from onward.clock import Clock
    from onward.driver import Store

EXAMPLES = "sqlite:///file.db (relative), sqlite:////absolute/file.db or memory://"
DEFAULT_TIMEOUT = timedelta(seconds=5)


def connect(url: str, *, clock: Clock, strict: bool = False) -> Store:
    """Make the store that ``url`` names. Nothing is opened before the first use.

    ``sqlite:///file.db?prefix=onward_&timeout=5s&network_file_system=allow``: ``prefix`` begins the names of the tables, ``timeout`` is
    how long a write waits for another writer. ``strict`` refuses callers' connections that could lose commits at a power cut.
    Raises ``InvalidSetting`` for a URL that names no backend.
    """
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if scheme == "memory":
        return _memory(url, clock)
    if scheme == "sqlite":
        return _sqlite(url, clock, strict)
    if scheme.partition("+")[0] in ("postgres", "postgresql"):
        raise InvalidSetting(f"{scheme}:// is not there yet: this version of Onward stores jobs in {EXAMPLES}")
    raise InvalidSetting(f"{_shown(url)!r} names no backend of Onward: use {EXAMPLES}")


def _memory(url: str, clock: Clock) -> Store:
    if url.partition(":")[2] not in ("", "//", "///"):
        raise InvalidSetting(f"memory:// takes nothing after it, not {url!r}")
    store: Store = import_module("onward.drivers.memory").MemoryStore(clock=clock)
    return store


def _sqlite(url: str, clock: Clock, strict: bool) -> Store:
    parts = urlsplit(url)
    if parts.netloc:
        raise InvalidSetting(f"{url!r} has two slashes before the path: use {EXAMPLES}")
    path = unquote(parts.path)[1:]
    if path in ("", ":memory:") or path.startswith("file:"):
        raise InvalidSetting(f"{url!r} names no file, and SQLite gives each connection a :memory: of its own: use memory://, or a file")
    if parts.fragment:
        raise InvalidSetting(f"{url!r} contains '#': write it as %23 if it belongs to the file's name")
    prefix, timeout, allows_network = "onward_", DEFAULT_TIMEOUT, False
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "prefix":
            prefix = value
        elif name == "timeout":
            timeout = _timeout(value)
        elif name == "network_file_system" and value in ("allow", "refuse"):
            allows_network = value == "allow"
        else:
            raise InvalidSetting(f"{name}={value} means nothing in {url!r}: known are prefix=, timeout= and network_file_system=allow")

    from onward.drivers.sqlite.driver import SQLiteStore

    return SQLiteStore(path, clock=clock, strict=strict, prefix=prefix, timeout=timeout, allow_network_file_system=allows_network)


def _timeout(value: str) -> timedelta:
    try:
        return parse_duration(value)
    except InvalidTime as error:
        raise InvalidSetting(f"timeout: {error}") from None


def _shown(url: str) -> str:
    # A mistyped URL may hold a password.
    return url if "@" not in url else url.partition(":")[0] + "://…"
