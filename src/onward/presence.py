"""Which workers there are, for people and alerts: nothing that is promised rests on it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

SEEN_EVERY = timedelta(minutes=1)
"""How often a worker says that it is there."""
GONE_AFTER = timedelta(minutes=3)
"""Without a word for so long, a worker counts as gone."""
FORGOTTEN_AFTER = timedelta(days=1)


class Presence(Struct, frozen=True, kw_only=True):
    """What a worker says of itself."""

    lease_owner: str
    name: str
    queues: tuple[str, ...] = ()
    """Empty: every queue."""
    types: tuple[str, ...] = ()
    """What it can run, the aliases included."""
    concurrency: int = 1
    """How many handlers it runs at once."""


class KnownWorker(Presence, frozen=True, kw_only=True):
    """A worker as a person sees it. Every instant is aware UTC."""

    started_at: datetime
    seen_at: datetime
    """When it said for the last time that it is there."""

    def is_alive(self, now: datetime) -> bool:
        """False for one that was silent for ``GONE_AFTER``, or that was seen by a clock which was set back since."""
        return abs(now - self.seen_at) <= GONE_AFTER

    def serves(self, queue: str) -> bool:
        return not self.queues or queue in self.queues


def living(workers: Iterable[KnownWorker], now: datetime) -> list[KnownWorker]:
    """Those of them that are alive."""
    return [one for one in workers if one.is_alive(now)]


def who_is_lacking(workers: Iterable[KnownWorker], queue: str, type_: str) -> str | None:
    """What keeps a job from being run by any of these living workers: ``worker``, ``queue`` or ``type``. None where one could."""
    found = list(workers)
    if not found:
        return "worker"
    serving = [one for one in found if one.serves(queue)]
    if not serving:
        return "queue"
    return None if any(type_ in one.types for one in serving) else "type"
