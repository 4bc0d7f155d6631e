"""Backends, and ``connect``: the only map from a URL's scheme to a driver. Imports on demand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from onward.errors import InvalidSetting
from onward.settings import safe_url
from onward.spelling import nearest

if TYPE_CHECKING:
    from onward.clock import Clock
    from onward.driver import Store

EXAMPLES = "sqlite:///file.db (relative), sqlite:////absolute/file.db, postgresql://user@host/database or memory://"


def connect(url: str, *, clock: Clock, strict: bool = False, migrate: bool = False) -> Store:
    """Make the store that ``url`` names. Nothing is opened before the first use.

    ``sqlite:///file.db?prefix=onward_&timeout=5s&durability=strict&network_file_system=allow``: ``prefix`` begins the names of the
    tables, ``timeout`` is how long a write waits for another writer, ``durability`` may be ``relaxed`` on both databases
    (``onward.drivers.durability``). ``strict`` refuses callers' connections that could lose commits at a power cut.
    ``postgresql://user@host/database?schema=onward&timeout=5s&connections=10&notify=off&prepare=off``, and all that libpq knows.
    ``migrate`` makes or changes the tables in Postgres at the first use; in SQLite that is always done.
    Raises ``InvalidSetting`` for a URL that names no backend, or one whose library is not installed.
    """
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if scheme == "memory":
        return _memory(url, clock)
    if scheme == "sqlite":
        return _sqlite(url, clock, strict)
    if scheme.partition("+")[0] in ("postgres", "postgresql"):
        return _postgres(url, clock, migrate)
    close = nearest(scheme, ("sqlite", "postgresql", "memory"))
    meant = f"did you mean {close!r}?" if close else f"use {EXAMPLES}"
    raise InvalidSetting(f"{_shown(url)!r} names no backend of Onward: {meant}")


def _memory(url: str, clock: Clock) -> Store:
    if url.partition(":")[2] not in ("", "//", "///"):
        raise InvalidSetting("memory:// takes nothing after it")
    store: Store = import_module("onward.drivers.memory").MemoryStore(clock=clock)
    return store


def _sqlite(url: str, clock: Clock, strict: bool) -> Store:
    from onward.drivers.sqlite.url import read_url

    path, options = read_url(url)
    store: Store = import_module("onward.drivers.sqlite.driver").SQLiteStore(path, clock=clock, strict=strict, **options)
    return store


def _postgres(url: str, clock: Clock, migrate: bool) -> Store:
    try:
        import_module("psycopg")
    except ImportError as error:
        raise InvalidSetting(f"Postgres needs psycopg: pip install 'onward[postgres]' ({error})") from None
    from onward.drivers.postgres.driver import PostgresStore
    from onward.drivers.postgres.url import read_url
    from onward.settings import Settings

    conninfo, options = read_url(url)
    listen = Settings()["listen_url"]
    try:
        listen_url = None if listen.value is None else read_url(listen.value)[0]
    except InvalidSetting as error:
        raise InvalidSetting(f"listen_url ({listen.source}): {error}") from None
    store = PostgresStore(conninfo, clock=clock, listen_url=listen_url, migrate=migrate, **options)
    store.whole_url = url
    return store


def _shown(url: str) -> str:
    # A mistyped URL may hold a password.
    return safe_url(url) if "@" not in url else url.partition(":")[0] + "://…"
