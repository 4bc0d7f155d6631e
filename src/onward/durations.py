"""Durations as people write them: ``"5m"``, ``"1h30m"``, ``"250ms"``. ``timedelta`` in Python, text at the edges."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from onward.errors import InvalidTime
from onward.spelling import shown

LONGEST = timedelta(days=36_500)

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)", re.ASCII)

type_of_duration = "a duration such as '30s', '5m', '1h30m' or '2d', or a number of seconds"


def parse_duration(value: timedelta | float | str) -> timedelta:
    """Read a duration: a ``timedelta``, a number of seconds, digits, or text with the units ms, s, m, h, d.

    Raises ``InvalidTime`` for anything negative, malformed, not finite, or longer than a hundred years.
    """
    duration = _read(value)
    if not timedelta(0) <= duration <= LONGEST:
        raise InvalidTime(f"{shown(value)} is out of range: a duration is from 0 to {LONGEST.days} days")
    return duration


def _read(value: timedelta | float | str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidTime(f"{shown(value)} is not {type_of_duration}")
    if isinstance(value, str):
        return _read_text(value)
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise InvalidTime(f"{shown(value)} is out of range: a duration is from 0 to {LONGEST.days} days") from None


def _read_text(text: str) -> timedelta:
    cleaned = text.strip().lower()
    if len(cleaned) <= 12 and cleaned.isascii() and cleaned.isdigit():
        return timedelta(seconds=int(cleaned))
    if cleaned.startswith("-") and _PART.match(cleaned, 1):
        raise InvalidTime(f"{shown(text)} is negative: a duration is from 0 to {LONGEST.days} days")
    total, position = timedelta(0), 0
    while match := _PART.match(cleaned, position):
        try:
            total += float(match[1]) * _UNITS[match[2]]
        except OverflowError:
            raise InvalidTime(f"{shown(text)} is out of range: a duration is from 0 to {LONGEST.days} days") from None
        position = match.end()
    if position == 0 or position != len(cleaned):
        raise InvalidTime(f"{shown(text)} is not {type_of_duration}")
    return total


def format_duration(duration: timedelta) -> str:
    """Write a duration the way ``parse_duration`` reads it: ``1h30m``, ``250ms``, ``0s``. Exact to the millisecond."""
    left = round(duration / _UNITS["ms"])
    sign, left = ("-", -left) if left < 0 else ("", left)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + ("".join(parts) or "0s")


def parse_retry_after(value: timedelta | float | str, now: datetime) -> timedelta:
    """Read what a service said of when to come back: a duration, digits, or an HTTP date (RFC 9110, section 10.2.3).

    A date that has passed is no wait at all. Raises ``InvalidTime`` for what is none of these, negative, or a hundred years away.
    """
    try:
        return parse_duration(value)
    except InvalidTime:
        if not isinstance(value, str):
            raise
    from email.utils import parsedate_to_datetime  # takes 10 ms to import, and few need it

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        raise InvalidTime(f"{shown(value)} is neither {type_of_duration}, nor an HTTP date") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    wait = max(moment - now, timedelta(0))
    if wait > LONGEST:
        raise InvalidTime(f"{shown(value)} is out of range: it is more than {LONGEST.days} days away")
    return wait


def parse_moment(value: datetime | str) -> datetime:
    """Read a point in time as aware UTC. A naive time is refused: nobody can know which zone it meant."""
    moment = value
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise InvalidTime(f"{shown(value)} is not a time such as '2026-03-01T09:30:00Z' or '2026-03-01T09:30:00+02:00'") from None
    if not isinstance(moment, datetime):
        raise InvalidTime(f"{shown(value)} is not a datetime")
    if moment.tzinfo is None:
        example = "'2026-03-01T09:30:00Z'" if isinstance(value, str) else "datetime(..., tzinfo=UTC)"
        raise InvalidTime(f"{shown(value)} has no time zone: add one, such as {example}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidTime(f"{shown(value)} is out of range") from None
