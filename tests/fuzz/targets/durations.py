"""Durations, moments, what a service says of when to come back, and the scope of a key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onward.durations import LONGEST, format_duration, parse_duration, parse_moment, parse_retry_after
from onward.errors import InvalidDefinition, InvalidTime
from onward.unique import read_scope
from tests.fuzz.target import Target, as_text, declared, must, texts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HALF_A_MILLISECOND = timedelta(microseconds=500)
LONGEST_TEXT = 400


def check(data: bytes) -> None:
    text = as_text(data)
    with declared(InvalidTime, longest=LONGEST_TEXT):
        _check_duration(parse_duration(text))
    with declared(InvalidTime, longest=LONGEST_TEXT):
        must(timedelta(0) <= parse_retry_after(text, NOW) <= LONGEST, "what a service says leads out of range")
    with declared(InvalidTime, longest=LONGEST_TEXT):
        moment = parse_moment(text)
        must(moment.utcoffset() == timedelta(0), "a moment is not in UTC")
        must(parse_moment(moment.isoformat()) == moment, "a moment does not come back")
    with declared(InvalidDefinition, longest=len(text) * 12 + LONGEST_TEXT):
        scope = read_scope(text)
        must(scope in ("active", "forever") or scope, "a window of nothing")


def _check_duration(duration: timedelta) -> None:
    must(timedelta(0) <= duration <= LONGEST, f"{duration!r} is out of range")
    written = format_duration(duration)
    again = parse_duration(written) if duration < LONGEST else duration
    must(abs(again - duration) <= HALF_A_MILLISECOND, f"{duration!r} is written as {written} and comes back as {again!r}")
    must(format_duration(again) == written or duration == LONGEST, f"{written} is not written the same again")


TARGET = Target(
    "durations",
    check,
    texts("5m", "1h30m", "250ms", "1.5s", "1e309h", "٣m", "-0s", "-5m", "999999999999d", "0.000001ms", "2026-01-01T09:30:00Z", "+02:00")
    | texts("Mon, 01 Jan 2024 00:00:00 ", "GMT", "+9999", "9999999999999999999999", "active", "forever", "inf", "nan", "36500d"),
    ("ms", "s", "m", "h", "d", "GMT", "Mon, 01 Jan 2024 00:00:00 ", "2026-01-01T00:00:00", "+00:00", "e309", "active"),
)
