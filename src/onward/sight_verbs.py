"""The part of a store's contract that is there to be looked at: what waits and runs, what has ended, who works, and what is wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from onward.alert_rules import AlertRules
from onward.alerts import Alert, Told
from onward.attempts import MOST_LOOKED_AT, AttemptFilter, Attempts, Place
from onward.inspection import DeadLetter
from onward.jobs import Job, NewJob
from onward.metrics import Backlog, Metrics, Total
from onward.presence import KnownWorker, Presence
from onward.verdict import Verdict

JobsFor: TypeAlias = Callable[[Told], Sequence[NewJob]]
"""Which jobs are to be accepted, given what is told."""


class Due(NamedTuple):
    """What a worker that looks out has to do now."""

    is_time_to_look: bool
    has_untold: bool
    """There are alerts of which nobody was told yet."""


def no_jobs(told: Told) -> Sequence[NewJob]:
    """Nobody else is to be told."""
    return ()


class SightVerbs(ABC):
    """What people and monitors see. Nothing of it counts finished rows, and nothing that workers do needs it."""

    @abstractmethod
    def now(self) -> datetime:
        """What time it is by the clock that decides what is due."""

    @abstractmethod
    def backlog(self) -> list[Backlog]:
        """What waits and runs just now, by queue and type, each count up to a bound."""

    @abstractmethod
    def due_before(self, job: Job) -> int:
        """How many due jobs of its queue are taken before this one, counted up to ``MOST_COUNTED``; those that wait for others are not."""

    @abstractmethod
    def totals(self) -> list[Total]:
        """What has ever ended, by queue, type and outcome. Counts only grow, whatever is pruned and whoever restarts."""

    @abstractmethod
    def dead_letters(
        self, *, types: Sequence[str] = (), queues: Sequence[str] = (), limit: int = 1000, before: DeadLetter | None = None
    ) -> list[DeadLetter]:
        """Read a page of dead letters without their payloads, those that became so last first. ``before`` is the last of the page before.

        A row that cannot be read is left out.
        """

    @abstractmethod
    def attempts(self, where: AttemptFilter, *, limit: int = 50, before: Place | None = None, looks: int = MOST_LOOKED_AT) -> Attempts:
        """Read attempts of all jobs, newest first; ``before`` is where the page before ended.

        Where the filter may match few, at most ``looks`` are looked at, or ``limit`` if that is more: the page says that it stopped there.
        """

    @abstractmethod
    def alerts(self, *, is_open: bool | None = None, limit: int = 50, before: str | None = None) -> list[Alert]:
        """Read alerts, newest id first: those that are open, those that are over, or both. ``before`` is the last id of the page before."""

    @abstractmethod
    def alert(self, alert_id: str) -> Alert:
        """Read one. Raises ``AlertNotFound``."""

    @abstractmethod
    def acknowledge_alert(self, alert_id: str, *, actor: str = "") -> Alert:
        """Write down that somebody has seen it; who was first stays. Raises ``AlertNotFound``."""

    @abstractmethod
    def tell_alerts(self, jobs_for: JobsFor = no_jobs) -> Told:
        """Give the alerts that were opened, and those that were resolved, of which nobody was told yet. Each comes once, to one caller.

        The jobs that tell others of them are accepted in the same commit, so that none is told of to nobody.
        """

    @abstractmethod
    def announce(self, presence: Presence) -> None:
        """Write down that a worker is there, for people to look at. Forgets workers of which nothing was heard for a day."""

    @abstractmethod
    def withdraw(self, lease_owner: str) -> None:
        """Write down that a worker is there no more."""

    @abstractmethod
    def workers(self) -> list[KnownWorker]:
        """The workers that have announced themselves, dead ones included, by lease owner."""

    @abstractmethod
    def look_out(self, every: timedelta) -> Due:
        """Say, cheaply, whether ``take_look`` and ``tell_alerts`` would have anything to do."""

    @abstractmethod
    def take_look(self, every: timedelta) -> bool:
        """Say whether this caller is to look whether rules of alerts are broken: one of all is, each time so long is over.

        The first such time is over that long after the first call for a store.
        """

    @abstractmethod
    def judge(self, rules: AlertRules, look: Metrics) -> Verdict:
        """Open and resolve alerts by what was seen in a look, and remember what the next one has to know, in one commit."""
