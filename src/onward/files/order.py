"""One placing at a time in a directory, over all threads and processes of the machine.

A store ends a transaction that takes too long, and with it the proof that the claim is the newest, while its handler may still be a
moment away from placing its file. The directory's own lock is held from before the transaction until after it, so that nobody can place
in between: whoever completes later also places later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from onward.errors import TransientJobError

LONGEST_WAIT = 30.0
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.02


@contextmanager
def one_at_a_time(directory: int | None, *, longest_wait: float = LONGEST_WAIT) -> Iterator[None]:
    """Hold the directory (an open descriptor; None for one that does not exist) against every other placing.

    Raises ``TransientJobError`` after ``longest_wait`` seconds: the holder may be a stopped process, which must not stop this one too.
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
                    f"another job holds the target's directory since {longest_wait:g} s: is its process stopped?"
                ) from None
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)
    try:
        yield
    finally:
        fcntl.flock(directory, fcntl.LOCK_UN)
