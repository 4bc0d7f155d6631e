"""What a claim found, while it is put together."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from onward.jobs import Job
from onward.turn import Claim


class Found(Struct):
    """What a claim found."""

    claims: list[Claim] = []
    expired: list[Job] = []
    blocked: int = 0
    refused: int = 0
    """Rows that have to wait for others."""
    next_due: timedelta | None = None
    leaves_blocked: bool = False

    def look_again(self, at: datetime | None, now: datetime) -> None:
        """Something may go on at this moment, perhaps before the next job is due."""
        if at is not None:
            wait = max(at - now, timedelta(0))
            self.next_due = wait if self.next_due is None else min(wait, self.next_due)
