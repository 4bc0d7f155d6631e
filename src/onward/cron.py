"""Moments: when a cron expression or an interval is due next. Times are local in one zone; every instant that leaves is UTC.

The rule for the days on which the clocks change:

- An expression that names hours (``30 2 * * *``) names times of day. One that is left out on a spring night is due once, at the first
  instant after the gap; one that comes twice on an autumn night is due once, the first time.
- An expression that is due in every hour (``*/15 * * * *``) follows the time that passes: in the repeated hour it is due in both passes,
  and in the gap there is no hour that it could miss.

An interval counts from 1970-01-01 00:00 UTC, so that every process means the same moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from cronsim import CronSim, CronSimError

from onward.cron_fields import ANY_DAY, find_fault
from onward.errors import InvalidDefinition
from onward.spelling import did_you_mean, nearest, shown

LONGEST_EXPRESSION = 200
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


class Cron:
    """A cron expression of five fields in a time zone. Day of month and day of week together mean either of them, as in cron.

    Raises ``InvalidDefinition`` for what cannot be read, and for what is never due, such as the 30th of February.
    """

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self.zone = read_zone(timezone)
        self._parsed = _parse(expression)
        self._follows_elapsed_time = len(self._parsed.hours) == 24
        try:
            next(self._local(ANY_DAY))
        except StopIteration:
            raise InvalidDefinition(f"the cron expression {shown(expression)} is never due: it names a day that does not exist") from None

    def after(self, instant: datetime) -> datetime:
        """The first moment after an instant. Both are aware; the answer is UTC."""
        return self._after_elapsed(instant) if self._follows_elapsed_time else self._after_named(instant)

    def explain(self) -> str:
        """The expression in words, without its zone."""
        text = self._parsed.explain()
        return text if self._parsed.day_and else text.replace(" day of month and on ", " day of month, or on ")

    def _local(self, after: datetime) -> Iterator[datetime]:
        """Local times that the expression names, as on a clock that never changes."""
        walk = copy(self._parsed)
        walk.dt = after.replace(microsecond=0)
        return walk

    def _after_named(self, instant: datetime) -> datetime:
        here = instant.astimezone(self.zone).replace(tzinfo=None)
        return next(found for wanted in self._local(here) if (found := self._instant(wanted)) > instant)

    def _instant(self, wanted: datetime) -> datetime:
        """When the clocks show this time first; for one that they never show, when they pass it over."""
        first = wanted.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
        if first.astimezone(self.zone).replace(tzinfo=None) == wanted:
            return first
        return self._change(wanted.replace(tzinfo=self.zone, fold=1).astimezone(UTC), first)

    def _after_elapsed(self, instant: datetime) -> datetime:
        offset = self._offset(instant)
        here = (instant.astimezone(UTC) + offset).replace(tzinfo=None)
        while True:
            wanted = next(self._local(here))
            first = wanted.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
            found = (wanted - offset).replace(tzinfo=UTC)
            if self._offset(found) == offset:
                # It may be the second pass of an hour whose first pass, with another offset, lies ahead as well.
                return first if instant < first < found else found
            change = self._change(instant.astimezone(UTC), found)
            offset = self._offset(change)
            here = (change + offset - _SECOND).replace(tzinfo=None)

    def _change(self, before: datetime, behind: datetime) -> datetime:
        """The instant between these two at which the clocks are changed, to the second."""
        before = before.replace(microsecond=0)
        offset = self._offset(before)
        low, high = 0, (behind - before) // _SECOND
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(before + middle * _SECOND) == offset:
                low = middle
            else:
                high = middle
        return before + high * _SECOND

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.zone).utcoffset() or timedelta(0)


class Every:
    """An interval: its multiples since 1970-01-01 00:00 UTC."""

    def __init__(self, interval: timedelta) -> None:
        self.interval = interval

    def after(self, instant: datetime) -> datetime:
        """The first moment after an instant. Both are aware; the answer is UTC."""
        return _EPOCH + ((instant - _EPOCH) // self.interval + 1) * self.interval

    def explain(self) -> str:
        """The interval in words."""
        from onward.durations import format_duration

        return f"Every {format_duration(self.interval)}"


def _parse(expression: str) -> CronSim:
    if not isinstance(expression, str):
        raise InvalidDefinition(f"a cron expression is text such as '30 2 * * *', not {shown(expression)}")
    text = expression.strip().lower()
    if text.startswith("@"):
        if text not in NICKNAMES:
            raise InvalidDefinition(f"{shown(expression)} is no nickname of a cron expression{did_you_mean(text, NICKNAMES)}")
        text = NICKNAMES[text]
    fields = text.split()
    if len(text) > LONGEST_EXPRESSION:
        raise InvalidDefinition(f"{shown(expression)} is no cron expression: that has at most {LONGEST_EXPRESSION} characters")
    if len(fields) != 5:
        raise InvalidDefinition(
            f"{shown(expression)} is no cron expression: that has five fields, minute, hour, day of month, month and day of week, "
            f"such as '30 2 * * *', not {len(fields)}; seconds are for every='10s'"
        )
    if fault := find_fault(text):
        raise InvalidDefinition(f"the cron expression {shown(expression)} cannot be read: {fault}")
    try:
        return CronSim(text, ANY_DAY)
    except CronSimError:
        day, month = shown(fields[2]), shown(fields[3])
        raise InvalidDefinition(f"the cron expression {shown(expression)} is never due: month {month} has no day of month {day}") from None


def read_zone(name: str) -> tzinfo:
    """The zone of a name such as ``Europe/Paris``. Raises ``InvalidDefinition``."""
    if not isinstance(name, str):
        raise InvalidDefinition(f"timezone= is the name of a time zone, such as 'Europe/Paris', not {shown(name)}")
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = available_timezones()
    if not known:
        raise InvalidDefinition(f"this machine has no time zones, so {shown(name)} cannot be read: install the package tzdata")
    close = nearest(name.lower(), sorted(known), likeness=0.6)
    hint = f": did you mean {close!r}?" if close else ": names are those of the IANA database, such as Europe/Paris"
    raise InvalidDefinition(f"there is no time zone {shown(name)}{hint}")


@lru_cache(maxsize=20_000)
def read_cron(expression: str, timezone: str) -> Cron:
    """``Cron``, made once for each expression and zone. Raises as that."""
    return Cron(expression, timezone)
