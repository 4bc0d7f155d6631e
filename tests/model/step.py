"""One thing that can happen next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from tests.model.changes import Change
from tests.model.state import State

JOBS = ("job 1", "job 2", "job 3")


class Step(NamedTuple):
    """What happens, and what becomes of it."""

    text: tuple[str, int, int, str]
    """What, which process, which job, and a word more; put into a sentence only when it is printed."""
    state: State
    changes: tuple[Change, ...] = ()
    is_help: bool = False
    """True for what persons and clients do: no job may need it to come to an end."""

    def told(self, names: str) -> str:
        """Put it into a sentence. ``names`` has a letter for each process."""
        what, process, job, more = self.text
        return what.format(process=names[process], job=JOBS[job], more=more)


Steps: TypeAlias = Iterator[Step]
