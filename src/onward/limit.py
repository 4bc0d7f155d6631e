"""How many may run at once, and how many may begin in a time: what is said of a queue or a key, what is stored of it, what is free."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from onward.durations import LONGEST
from onward.errors import InvalidDefinition
from onward.rate import SLACK, Bucket, default_burst, parse_rate
from onward.spelling import shown

LimitKind: TypeAlias = Literal["queue", "key"]
"""What a limit is on: all jobs of a queue, or those that share a ``concurrency_key``."""
MOST = 1_000_000
LET_AT_ONCE = 1000
"""Waiting jobs of one key that may ask again at once."""
LET_WITHOUT_LIMIT = 100
"""Those of a key that nobody knows a limit of: if code says one after all, the first that asks brings it, and the others wait again."""
CHECK_EVERY = timedelta(milliseconds=50)
"""Tokens of a quick rate are handed on together, at most so often; where the burst is less than comes in that time, more often."""
LEAST_CHECK = timedelta(milliseconds=1)


class Limit(Struct, frozen=True):
    """How many jobs may run at once, on all machines together, and how often one may begin. What is None is not limited.

    Raises ``InvalidDefinition``.
    """

    concurrency: int | None = None
    rate: str | None = None
    """So many in so long a time, such as ``10/s`` or ``100/m``. Every try counts."""
    burst: int | None = None
    """How many may begin at once after a pause; None for those of one second."""

    def __post_init__(self) -> None:
        if self.concurrency is None and self.rate is None:
            raise InvalidDefinition("a limit needs concurrency=, the jobs that may run at once, or rate=, such as '10/s'")
        _check("concurrency", self.concurrency)
        _check("burst", self.burst)
        bucket = self.bucket(None)
        if bucket is not None:
            if bucket.burst * bucket.rate.interval > LONGEST:
                most = f"what its rate gives in {LONGEST.days} days"
                raise InvalidDefinition(f"burst= of a limit is at most {most}, and {shown(self.rate)} takes longer for {self.burst:,}")
        elif self.burst is not None:
            raise InvalidDefinition("burst= of a limit goes with rate=: how many may begin at once after a pause")

    def bucket(self, spent_until: datetime | None) -> Bucket | None:
        """What counts the beginnings; None without a rate."""
        if self.rate is None:
            return None
        rate = parse_rate("rate", self.rate)
        return Bucket(rate, self.burst or default_burst(rate), spent_until)


def _check(what: str, count: int | None) -> None:
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST):
        raise InvalidDefinition(f"{what}= of a limit is a whole number from 1 to {MOST:,}, not {shown(count)}")


class LimitState(Struct, frozen=True, kw_only=True):
    """A limit as it is stored. Every instant is aware UTC."""

    kind: LimitKind
    name: str
    """Of the queue, or the key."""
    limit: Limit
    is_by_hand: bool = False
    """A person set it, so what code says does not change it."""
    spent_until: datetime | None = None
    """Of the bucket that counts what began; see ``onward.rate``."""
    check_at: datetime | None = None
    """When jobs that wait for the rate may begin next. None where none waits for it."""

    def now(self, now: datetime) -> LimitState:
        """The state with what was spent by a clock that has gone back since taken for an empty bucket."""
        bucket = self._bucket
        if bucket is None or self.spent_until is None or self.spent_until <= bucket.empty_until(now) + SLACK:
            return self
        return replace(self, spent_until=bucket.empty_until(now))

    def room(self, running: int, now: datetime) -> int:
        """How many more may begin now, beside those that run."""
        free = MOST if self.limit.concurrency is None else max(self.limit.concurrency - running, 0)
        bucket = self._bucket
        return free if bucket is None else min(free, bucket.available(now))

    def taken(self, count: int, now: datetime) -> LimitState:
        """The state once so many have begun."""
        bucket = self._bucket
        return self if bucket is None or not count else replace(self, spent_until=bucket.take(count, now))

    def next_token(self, now: datetime) -> datetime | None:
        """When the rate lets one begin again: None where it does now, or there is no rate."""
        bucket = self._bucket
        at = None if bucket is None else bucket.next_at(now)
        return None if at is None or at <= now else at

    def next_check(self, running: int, now: datetime) -> datetime | None:
        """When to look again for those that wait for the rate; None where there is none, or all places are taken: an end looks then."""
        if self.limit.rate is None or (self.limit.concurrency is not None and running >= self.limit.concurrency):
            return None
        bucket = self._bucket
        whole = CHECK_EVERY if bucket is None else max(min(CHECK_EVERY, bucket.burst * bucket.rate.interval), LEAST_CHECK)
        return max(self.next_token(now) or now, now + whole)

    @property
    def _bucket(self) -> Bucket | None:
        return self.limit.bucket(self.spent_until)
