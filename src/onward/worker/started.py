"""A small shared map of the jobs that have really started, so that a supervisor can tell them from claims that only waited.

The child writes, the supervisor reads after the child is dead. One place is 26 bytes: an id, or zeros.
"""

from __future__ import annotations

import mmap
import os
import tempfile

from onward.ids import LENGTH

_EMPTY = bytes(LENGTH)


class StartedJobs:
    """The map, over a file descriptor that parent and child share."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0)
        self.capacity = len(self._map) // LENGTH
        self._free = list(range(self.capacity - 1, -1, -1))

    def add(self, job_id: str) -> int | None:
        """Note that a job starts, and give its place. None when the map is full."""
        try:
            place = self._free.pop()
        except IndexError:
            return None
        self._map[place * LENGTH : (place + 1) * LENGTH] = job_id.encode()
        return place

    def remove(self, place: int) -> None:
        """Forget the job at ``place``: its outcome is stored."""
        self._map[place * LENGTH : (place + 1) * LENGTH] = _EMPTY
        self._free.append(place)

    def ids(self) -> list[str]:
        """Every job that started and was not forgotten."""
        places = (self._map[place * LENGTH : (place + 1) * LENGTH] for place in range(self.capacity))
        return [one.decode(errors="replace") for one in places if one != _EMPTY]

    def clear(self) -> None:
        """Forget all of them."""
        self._map[:] = bytes(len(self._map))

    def close(self) -> None:
        self._map.close()


def create_map(capacity: int) -> int:
    """Make the file behind a map and give its descriptor. It has no name and goes when nobody holds it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("onward-started")
    else:  # pragma: no cover - macOS
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, capacity * LENGTH)
    return descriptor
