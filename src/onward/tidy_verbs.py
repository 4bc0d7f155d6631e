"""The part of a store's contract that keeps it small: what is over goes, and what it took is given back."""

from __future__ import annotations

from abc import ABC, abstractmethod

from onward.inspection import Retention
from onward.pruning import Due, Ended, Gone, Keeping, Look, Walk


class TidyVerbs(ABC):
    """What keeps a store small. Each call is short, however much there is to do."""

    @abstractmethod
    def finished(self, look: Look) -> list[Ended]:
        """Read finished jobs, the oldest first. Keeps nobody waiting."""

    @abstractmethod
    def delete_finished(self, due: Due, *, relaxed: bool = False) -> Gone:
        """Delete those of these jobs that still are what was read, and that nobody holds, with their history.

        Keys of a window or for ever outlive the job. ``relaxed`` need not wait for the disk: after a power cut they may be there again.
        """

    @abstractmethod
    def tidy(self, retention: Retention, *, limit: int = 1000) -> bool:
        """Delete keys whose window is over, make one row of the workers' rollups of minutes that are older than five, count them into what
        has ever ended, and delete rollups, records of actions and alerts that are over past their own retention, ``limit`` of each in a
        transaction. Says whether there may be more to delete.
        """

    def give_back(self) -> bool:
        """Give a little of the space that is free back to the file system. Says whether there is more to give."""
        return False

    def prune(self, retention: Retention, *, limit: int = 1000) -> int:
        """``tidy``, and delete at most ``limit`` finished jobs that are past their retention. Says how many.

        Takes every type for one that the application knows.
        """
        self.tidy(retention, limit=limit)
        walk = Walk(Keeping(retention))
        walk.begin()
        deleted = 0
        while (look := walk.look) is not None and deleted < limit:
            rows = self.finished(look)
            due = walk.due(rows)
            gone = 0 if due is None else self.delete_finished(Due(due.status, due.upto, due.ids[: limit - deleted])).count
            walk.move(rows, gone)
            deleted += gone
        return deleted
