"""ULIDs: 26 characters, sortable by time, made by the client before the insert.

Ours because the libraries fall back after a clock step, repeat after a fork and are slow to import.
Specification: https://github.com/ulid/spec
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26
_PAIRS = tuple(a + b for a in ALPHABET for b in ALPHABET)
_RANDOM_BITS = 80
_has_form = re.compile(f"[0-7][{ALPHABET}]{{{LENGTH - 1}}}").fullmatch


class IdGenerator:
    """Makes ids that only ever rise within one process, also when the clock steps back and across threads.

    Within one millisecond, or after a step back, the random part counts on from the last id; a carry out of it moves the time part on.
    """

    def __init__(
        self,
        milliseconds: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._milliseconds = milliseconds
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._last = -1

    def __call__(self) -> str:
        with self._lock:
            fresh = (self._milliseconds() << _RANDOM_BITS) | int.from_bytes(self._random_bytes(10), "big")
            # The step is random too, so that ids cannot be guessed from a neighbour.
            step = 1 + int.from_bytes(self._random_bytes(4), "big") if fresh <= self._last else 0
            self._last = value = self._last + step if step else fresh
        return encode(value)

    def reseed(self) -> None:
        """Forget the last id. Called in a child after fork, where the lock may be held by a thread that is gone."""
        self._lock = threading.Lock()
        self._last = -1


def encode(value: int) -> str:
    """Write a 128-bit number as 26 characters of Crockford's base 32."""
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)])


def is_id(text: object) -> bool:
    """Say whether ``text`` has the form of an id."""
    return isinstance(text, str) and _has_form(text) is not None


new_id = IdGenerator()

if hasattr(os, "register_at_fork"):  # pragma: no branch - absent only on Windows
    os.register_at_fork(after_in_child=new_id.reseed)
