from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.durations import LONGEST, format_duration, parse_duration, parse_moment, parse_retry_after
from onward.errors import InvalidTime

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given_as", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("2d", 172_800),
        ("1.5h", 5400),
        ("0s", 0),
        ("30", 30),
        (" 30S ", 30),
        ("1d2h3m4s5ms", 93_784.005),
        (90, 90),
        (0.5, 0.5),
        (timedelta(hours=1), 3600),
        (0, 0),
        ("36500d", 36_500 * 86_400),
        ("1m1m", 120),
        ("000000000001s", 1),
    ],
)
def test_durations_are_read_as_people_write_them(given_as: Any, seconds: float) -> None:
    """Text at the edges, timedelta inside."""
    assert parse_duration(given_as) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        " ",
        "m",
        "5x",
        "5 m",
        "5m ago",
        "-5m",
        "-0s",
        "+5m",
        "٣m",
        "³s",
        "1e309h",
        "1e3s",
        "1_000s",
        "0x10s",
        "nans",
        "infs",
        "5.m",
        ".5m",
        "1.0000001s",
        "36501d",
        "999999999999d",
        "9" * 13,
        pytest.param("9" * 5000 + "d", id="text of 5000 digits"),
        "5m\0",
        "5µs",
        "1h-5m",
        -1,
        -0.001,
        float("nan"),
        float("inf"),
        1e300,
        pytest.param(10**400, id="int of 400 digits"),
        pytest.param(10**5000, id="int of 5000 digits"),
        True,
        None,
        [5],
        b"5m",
        timedelta(days=-1),
        timedelta.max,
    ],
)
def test_garbage_is_refused_in_one_short_line(garbage: Any) -> None:
    """Whatever it is, it ends in the one declared error; a number of five thousand digits too."""
    with pytest.raises(InvalidTime) as refused:
        parse_duration(garbage)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@given(st.timedeltas(min_value=timedelta(0), max_value=LONGEST).map(lambda one: timedelta(milliseconds=one // timedelta(milliseconds=1))))
def test_what_is_written_is_read_back(duration: timedelta) -> None:
    """Exact to the millisecond."""
    assert parse_duration(format_duration(duration)) == duration


@given(st.text(alphabet="0123456789.dhmsewx- ٣", max_size=30) | st.text() | st.floats() | st.integers())
def test_any_input_gives_a_duration_in_range_or_the_declared_error(anything: Any) -> None:
    """No other exception may reach a user."""
    try:
        duration = parse_duration(anything)
    except InvalidTime:
        return
    assert timedelta(0) <= duration <= LONGEST


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(seconds=5400), "1h30m"),
        (timedelta(days=400, seconds=1), "400d1s"),
        (timedelta(seconds=-90), "-1m30s"),
        (timedelta(microseconds=400), "0s"),
    ],
)
def test_durations_are_written_short(duration: timedelta, text: str) -> None:
    """What people read in tables; a negative one is only shown, never read."""
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("120", 120),
        ("5m", 300),
        (7, 7),
        (timedelta(seconds=9), 9),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120),
        ("Thu, 01 Jan 2026 00:02:00 -0000", 120),
        ("Thu, 01 Jan 2026 02:02:00 +0200", 120),
        ("Thursday, 01-Jan-26 00:02:00 GMT", 120),
        ("Thu Jan  1 00:02:00 2026", 120),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Sat, 08 Dec 2125 00:00:00 GMT", LONGEST.total_seconds()),
    ],
)
def test_retry_after_is_a_duration_or_an_http_date(value: Any, wait: float) -> None:
    """Services send both; a date that has passed is no wait."""
    assert parse_retry_after(value, NOW) == timedelta(seconds=wait)


@pytest.mark.parametrize(
    "value", ["soon", "", "Thu, 99 Foo 2026 00:00:00 GMT", "-5s", -5, None, "Thu, 01 Jan 9999 00:00:00 GMT", "\0", "1 2 3 4 5 6"]
)
def test_an_unreadable_retry_after_is_refused(value: Any) -> None:
    """The caller falls back to the policy; any other exception would lose the outcome."""
    with pytest.raises(InvalidTime):
        parse_retry_after(value, NOW)


PIECES = [
    *("Thu,", "Thursday,", "01", "99", "Jan", "Foo", "26", "2026", "0001", "9999", "10000", "00:02:00", "24:60:61", "1:2"),
    *("GMT", "EST", "+9999", "-2400", "-0000", "+99999999999", "\0", "٣", "²"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join) | st.text() | st.floats() | st.integers() | st.timedeltas())
def test_any_retry_after_is_a_wait_in_range_or_the_declared_error(anything: Any) -> None:
    """A header is written by somebody else; what the standard library makes of a strange date must not lose the outcome."""
    try:
        wait = parse_retry_after(anything, NOW)
    except InvalidTime:
        return
    assert timedelta(0) <= wait <= LONGEST


def test_a_date_that_is_too_far_away_is_named() -> None:
    """As the service wrote it."""
    with pytest.raises(InvalidTime, match=r"^'Sat, 08 Dec 2125 00:00:01 GMT' is out of range: it is more than 36500 days away$"):
        parse_retry_after("Sat, 08 Dec 2125 00:00:01 GMT", NOW)


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01T09:30:00Z",
        "2026-03-01T10:30:00+01:00",
        " 2026-03-01 09:30:00+00:00 ",
        datetime(2026, 3, 1, 15, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    ],
)
def test_moments_become_utc(value: Any) -> None:
    """Whatever the zone they were written in."""
    moment = parse_moment(value)
    assert moment == datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    assert moment.tzinfo is UTC


def test_a_naive_moment_is_refused_and_says_how_to_mend_it() -> None:
    """Nobody can know which zone it meant; jobs ran hours off elsewhere."""
    with pytest.raises(InvalidTime, match="tzinfo=UTC"):
        parse_moment(datetime(2026, 3, 1))  # noqa: DTZ001 - naive on purpose
    with pytest.raises(InvalidTime, match="Z"):
        parse_moment("2026-03-01T09:30:00")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "tomorrow",
        "2026-02-30T00:00:00Z",
        5,
        None,
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        pytest.param("x" * 10_000, id="long"),
    ],
)
def test_a_moment_that_is_none_is_refused(value: Any) -> None:
    """One declared error, one short line."""
    with pytest.raises(InvalidTime) as refused:
        parse_moment(value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", ["-5m", "-1s", " -1h30m"])
def test_a_negative_duration_is_called_negative(text: str) -> None:
    """A message about the form sends the reader looking for a typing mistake."""
    with pytest.raises(InvalidTime, match="is negative"):
        parse_duration(text)
