"""Who is measured beside Onward: the plain loops, which are the yardsticks, and other libraries, the peers. Each is a module with

- ``connect(url)``, awaited: opens the store, with its tables;
- ``enqueue_one(connection, payload)`` and ``enqueue_all(connection, payloads)``, awaited: store one job, or many as the library can;
- ``work``: serves until it is stopped;
- ``UNFINISHED``: a statement that counts the jobs that are due or running.

The yardstick on SQLite awaits nothing, and is driven by itself. A peer takes payloads as dictionaries and tells more of itself: see
``benchmarks.peers``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

ONWARD, RAW = "onward", "raw"
PEERS = ("huey", "persist_queue", "pgqueuer", "procrastinate", "chancy")


def is_sqlite(url: str) -> bool:
    """Whether the store is a SQLite file, else it is a Postgres database."""
    return url.startswith("sqlite:")


def yardstick(url: str) -> ModuleType:
    """The plain loop for the store of this URL."""
    return import_module(f"benchmarks.raw.{'sqlite' if is_sqlite(url) else 'postgres'}")


def peer(name: str) -> ModuleType:
    """One of the peers, or the module of this dotted name. Raises ``ImportError`` where its library is not installed."""
    return import_module(name if "." in name else f"benchmarks.peers.{name}")


def module_of(subject: str, url: str) -> ModuleType:
    """The module of anybody but Onward."""
    return yardstick(url) if subject == RAW else peer(subject)
