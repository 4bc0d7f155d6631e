"""So many in so long a time: how rates are written, and a bucket of tokens that needs no more than one instant to be remembered.

The bucket is the generic cell rate algorithm (ITU-T I.371): ``spent_until`` is when the bucket would be full again.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from math import ceil

from msgspec import Struct

from onward.durations import format_duration, parse_duration
from onward.errors import InvalidDefinition, InvalidTime
from onward.spelling import shown

MOST = 1_000_000
LEAST_INTERVAL = timedelta(microseconds=10)
"""Instants are stored to a microsecond, so a quicker rate could not be kept to by some per cent."""
SLACK = timedelta(minutes=1)
"""A claim may judge by a moment that lies that far back: it was begun, and then waited while others judged by later ones. What lies further
ahead of it was written by a clock that has gone back since."""
WHOLE = timedelta(milliseconds=1)
_RATE = re.compile(r"\s*([0-9]{1,7})\s*/\s*([0-9.]*[a-zA-Z0-9.]+)\s*", re.ASCII)


class Rate(Struct, frozen=True):
    """``count`` in each ``per``."""

    count: int
    per: timedelta

    @property
    def interval(self) -> timedelta:
        """From one to the next."""
        return self.per / self.count

    def __str__(self) -> str:
        unit = format_duration(self.per)
        return f"{self.count}/{unit[1:] if unit[0] == '1' and unit[1:].isalpha() else unit}"


@lru_cache(maxsize=1024)
def parse_rate(what: str, text: str) -> Rate:
    """Read a rate such as ``"10/s"``, ``"100/m"`` or ``"1/30s"``: a count, and a duration or a unit of one.

    ``what`` names it in the error. Raises ``InvalidDefinition``.
    """
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        try:
            per = parse_duration(match[2] if match[2][0].isdigit() else f"1{match[2]}")
        except InvalidTime:
            per = timedelta(0)
        count = int(match[1])
        is_whole = not per % WHOLE  # as it is stored
        if is_whole and 1 <= count <= MOST and LEAST_INTERVAL * count <= per <= timedelta(days=366):
            return Rate(count, per)
    raise InvalidDefinition(
        f"{what}= is a rate such as '10/s', '100/m' or '1/30s', of 1 to {MOST:,} in whole milliseconds or longer, not {shown(text)}"
    )


def default_burst(rate: Rate) -> int:
    """How many may begin at once where nobody says it: those of one second, at least one."""
    return max(ceil(rate.count / rate.per.total_seconds()), 1)


class Bucket(Struct, frozen=True):
    """Tokens that come back at a rate, up to ``burst`` of them. ``spent_until`` is None for a full one."""

    rate: Rate
    burst: int
    spent_until: datetime | None = None

    def available(self, now: datetime) -> int:
        """How many tokens there are."""
        return max((now + self.burst * self.rate.interval - self._since(now)) // self.rate.interval, 0)

    def take(self, count: int, now: datetime) -> datetime:
        """``spent_until`` once so many were taken, which must be there."""
        return self._since(now) + count * self.rate.interval

    def next_at(self, now: datetime) -> datetime:
        """When there is a token: now, or later."""
        return max(self._since(now) + self.rate.interval - self.burst * self.rate.interval, now)

    def empty_until(self, now: datetime) -> datetime:
        """``spent_until`` of a bucket that has just been emptied: what is further ahead was written by a clock that has gone back since."""
        return now + self.burst * self.rate.interval

    def _since(self, now: datetime) -> datetime:
        return min(max(self.spent_until or now, now), self.empty_until(now))
