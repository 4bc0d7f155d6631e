"""What compares the promises of completed jobs with the world outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onward.driver import Store


class Reconciliation(Protocol):
    """What a reconciler found."""

    @property
    def checked(self) -> int:
        """How many promises were compared with the world."""
        ...

    @property
    def unchecked(self) -> int:
        """How many could not be: the jobs that made them are older than the retention."""
        ...

    @property
    def pending(self) -> int:
        """How many a live job is about to change, so that they are not judged."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What was left unchecked, in words."""
        ...

    @property
    def discrepancies(self) -> Sequence[str]:
        """One line each."""
        ...


class Reconciler(Protocol):
    """Compares what completed jobs promised with the world outside. ``onward.files.FileJobs`` is one."""

    @property
    def name(self) -> str: ...

    def reconcile(self, store: Store) -> Reconciliation:
        """Compare, report, and repair nothing."""
        ...

    def sweep(self, store: Store) -> Sequence[str]:
        """Remove leftovers of its own that no job can need any more, and name them. Run when a worker starts."""
        ...
