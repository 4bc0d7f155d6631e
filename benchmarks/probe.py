"""What every handler calls, in well under a microsecond: how often handlers began, when, and how long their jobs had waited.

The words of a file in memory: for each process a count and the instant of its first and of its last, then the waits by number of the job.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path

PROCESSES, WAITS = 64, 4096
COUNTS, FIRSTS, LASTS, WAITED = 0, PROCESSES, 2 * PROCESSES, 3 * PROCESSES
FILE = "BENCHMARK_PROBE"


class Probe:
    """The file at ``path``. Instants are nanoseconds of the monotonic clock, which all processes of a machine share."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        self._slot: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(cls, path: Path) -> Probe:
        """Make it anew, with nothing counted."""
        for old in path.parent.glob(f"{path.name}*"):
            old.unlink()
        path.write_bytes(bytes(8 * (WAITED + WAITS)))
        return cls(str(path))

    def hit(self, number: int = 0, sent_at: int = 0) -> None:
        """A handler begins: of the job with this number, which was asked for at this instant; 0 where nobody wants to know."""
        now, words = time.monotonic_ns(), self.words
        with self._lock:  # handlers in threads hit at the same time
            slot = self._own() if self._slot is None else self._slot
            words[slot] += 1
            words[LASTS + slot] = now
            if words[slot] == 1:
                words[FIRSTS + slot] = now
        if sent_at:
            words[WAITED + number] = now - sent_at

    def _own(self) -> int:
        for slot in range(PROCESSES):
            try:
                os.close(os.open(f"{self._path}.{slot}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            self._slot = slot
            return slot
        raise RuntimeError(f"more than {PROCESSES} processes run handlers")

    # -- for the one who measures --------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many handlers have begun."""
        return sum(self.words[COUNTS:FIRSTS])

    @property
    def processes(self) -> int:
        """How many processes have run any."""
        return sum(bool(word) for word in self.words[COUNTS:FIRSTS])

    @property
    def first(self) -> float:
        """Seconds of the monotonic clock; 0 as long as none has begun."""
        return min((word for word in self.words[FIRSTS:LASTS] if word), default=0) / 1e9

    def waits(self) -> list[float]:
        """Seconds, of those that wanted to know, in order."""
        return sorted(word / 1e9 for word in self.words[WAITED:] if word)
