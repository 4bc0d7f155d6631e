"""What is written before a handler starts that has its process to itself: only then is the death of the process held against it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from onward.clock import Clock
from onward.definition import JobDefinition
from onward.driver import Store
from onward.turn import Extension
from onward.worker.run import Run

logger = logging.getLogger("onward.worker")


class Answer(Enum):
    """Whether the run may start."""

    START = "start"
    LOST = "lost"
    """The claim is not ours any more."""
    CANCELLED = "cancelled"
    """A person asked for it meanwhile."""
    FAILED = "failed"
    """The store could not be asked, so the job is given back."""


def warn_of_isolated_here(definitions: Iterable[JobDefinition[Any]], queues: Sequence[str]) -> None:
    """Say at the start of a worker which of its jobs are isolated by their rule, and will have no process of their own all the same."""
    concerned = sorted(one.name for one in definitions if one.isolated and (not queues or one.queue in queues))
    if concerned:
        logger.warning(
            "isolated jobs have no process of their own in this worker: they run in this one with nothing beside them, and one that kills "
            "it ends the program (%s); pass app.worker(application='module:attribute'), such as 'myapp.jobs:app'",
            ", ".join(concerned),
        )


class Isolation:
    """Called in a slot's thread, since the store may take its time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._has_warned = False

    def warn(self, run: Run) -> None:
        """Say, once in a worker, that a job holds up its neighbours because it must run alone here."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "job %s of type %s must run alone: it waits until nothing else runs in this process, and nothing starts beside it; "
                "a worker that is told its application= gives such jobs processes of their own",
                run.claim.id,
                run.claim.job.type,
            )

    def begin(self, run: Run) -> Answer:
        """Say to the store that this run starts alone. Never raises."""
        now = self._clock.monotonic()
        try:
            extended = self._store.extend([Extension(run.claim, run.context.reported, began_isolated=True)])
        except Exception as error:  # noqa: BLE001 - whatever it is, the handler must not start
            logger.warning("job %s must run alone, and the store cannot be told that it starts: given back: %s", run.claim.id, error)
            return Answer.FAILED
        if run.claim.id in extended.lost:
            return Answer.LOST
        run.renewed_at = max(run.renewed_at, now)
        return Answer.CANCELLED if run.claim.id in extended.cancel_requested else Answer.START
