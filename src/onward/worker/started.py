"""A small shared map of the jobs that have really started, so that a supervisor can tell them from claims that only waited.

The child writes, the supervisor reads after the child is dead. One mark is 26 bytes: an id, or zeros.
"""

from __future__ import annotations

import logging
import mmap
import os

from onward.ids import LENGTH

logger = logging.getLogger("onward.worker")

MOST_HELD = 2000
"""Claims that are not settled yet, on top of one a slot: what a worker's map has room for."""
_EMPTY = bytes(LENGTH)


class StartedJobs:
    """The map, over a file descriptor that parent and child share."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0)
        self.capacity = len(self._map) // LENGTH
        self._free = list(range(self.capacity - 1, -1, -1))
        self._has_warned = False

    def add(self, job_id: str) -> int | None:
        """Note that a job starts, and give its mark. None when the map is full, which is logged once, or for an id that is no ULID."""
        text = job_id.encode("utf-8", "replace")
        if len(text) != LENGTH:
            return None
        try:
            mark = self._free.pop()
        except IndexError:
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "more than %d jobs are started and not settled: a crash now would not be counted for the others", self.capacity
                )
            return None
        self._map[mark * LENGTH : (mark + 1) * LENGTH] = text
        return mark

    def remove(self, mark: int) -> None:
        """Forget the job of this mark: its outcome is stored."""
        self._map[mark * LENGTH : (mark + 1) * LENGTH] = _EMPTY
        self._free.append(mark)

    def ids(self) -> list[str]:
        """Every job that started and was not forgotten."""
        marks = (self._map[mark * LENGTH : (mark + 1) * LENGTH] for mark in range(self.capacity))
        return [one.decode(errors="replace") for one in marks if one != _EMPTY]

    def close(self) -> None:
        self._map.close()


def create_map(capacity: int) -> int:
    """Make the file behind a map and give its descriptor. It has no name and goes when nobody holds it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("onward-started")
    else:  # pragma: no cover - macOS
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, capacity * LENGTH)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
