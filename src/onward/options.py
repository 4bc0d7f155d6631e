"""What ``Onward.worker`` takes: its own file, so that the application can name the options without importing the worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from random import Random

    from onward.clock import Clock
    from onward.definition import Duration
    from onward.worker.started import StartedJobs


class WorkerOptions(TypedDict, total=False):
    """The options of a worker; what each means stands at ``onward.worker.worker.Worker``. A test holds both lists equal."""

    queues: Iterable[str]
    concurrency: int
    poll: Duration
    sweep_every: Duration
    prune_every: Duration
    grace: Duration | None
    timeout_grace: Duration
    name: str | None
    max_jobs: int | None
    drain: bool
    lease_owner: str | None
    started: StartedJobs | None
    supervised: bool
    clock: Clock | None
    chance: Random | None
