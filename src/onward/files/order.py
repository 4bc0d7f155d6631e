"""One placing at a time in a directory, over all threads and processes of the machine, and only by an open transaction.

A store ends a transaction that takes too long, and with it the proof that the claim is the newest, while its handler may be a moment
away from placing its file. So a placing first takes the directory's own lock and then asks whether its transaction is still open:
if it is, whoever comes after it in the store also comes after it on disk, since they wait here until it is through.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onward.errors import TransientJobError

LONGEST_WAIT = 4.0
"""Seconds; shorter than a handler's transaction may last, since the store's write lock is held meanwhile."""
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.02


@contextmanager
def one_at_a_time(directory: int | None, connection: Any, *, longest_wait: float = LONGEST_WAIT) -> Iterator[None]:
    """Hold the directory (an open descriptor; None for one that does not exist) against every other placing.

    ``connection`` is that of the store's transaction, which the caller is in. Raises ``TransactionTooLong`` when that is over, and
    ``TransientJobError`` after ``longest_wait`` seconds: the holder may be a stopped process, which must not stop this one too.
    """
    if directory is None:
        yield
        return
    import fcntl

    give_up_at, nap = time.monotonic() + longest_wait, _SHORTEST_NAP
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise TransientJobError(
                    f"another job holds the target's directory for {longest_wait:g} s: is its process stopped?"
                ) from None
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)
    try:
        _ask_whether_open(connection)
        yield
    finally:
        fcntl.flock(directory, fcntl.LOCK_UN)


def _ask_whether_open(connection: Any) -> None:
    # Any statement raises in a transaction that is over. The memory store's connection takes none, and nobody takes its lock away.
    if execute := getattr(connection, "execute", None):
        execute("SELECT 1")
