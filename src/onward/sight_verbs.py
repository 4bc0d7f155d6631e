"""The part of a store's contract that is there to be looked at: what waits and runs just now, and what has ever ended."""

from __future__ import annotations

from abc import ABC, abstractmethod

from onward.metrics import Backlog, Total


class SightVerbs(ABC):
    """What people and monitors see. Nothing of it counts finished rows, and nothing that workers do needs it."""

    @abstractmethod
    def backlog(self) -> list[Backlog]:
        """What waits and runs just now, by queue and type, each count up to a bound."""

    @abstractmethod
    def totals(self) -> list[Total]:
        """What has ever ended, by queue, type and outcome. Counts only grow, whatever is pruned and whoever restarts."""
