"""Whether a fault was felt: what nobody complained of has shown nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.torture.fleet import Fleet


class Complaints:
    """What supervisors, workers and senders have written to their log since this was made."""

    def __init__(self, fleet: Fleet) -> None:
        self._log = fleet.histories.with_name("processes.log")
        self._before = self._log.stat().st_size

    def have(self, *words: str) -> bool:
        """Say whether one of these texts is among them."""
        with self._log.open("rb") as log:
            log.seek(self._before)
            said = log.read().decode(errors="replace")
        return any(word in said for word in words)


@contextmanager
def felt(fleet: Fleet, fault: str, *words: str) -> Iterator[None]:
    """Somebody must have complained with one of these words by the end of the block."""
    complaints = Complaints(fleet)
    yield
    if not complaints.have(*words):
        fleet.failures.append(f"nobody felt the fault {fault!r}: nobody wrote {' or '.join(map(repr, words))}")
