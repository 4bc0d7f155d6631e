import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest

from onward.cron import Cron, Every, read_zone
from onward.errors import InvalidDefinition
from tests.moments_scan import scan

MINUTE = timedelta(minutes=1)
PARIS, NEW_YORK = "Europe/Paris", "America/New_York"


def moments(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    cron, found = Cron(expression, zone), [start]
    while found[-1] < end:
        found.append(cron.after(found[-1]))
    return found[1:-1]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# -- the days on which the clocks change ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "zone", "day", "due"),
    [
        ("30 2 * * *", PARIS, "2026-03-28", ["01:30"]),
        ("30 2 * * *", PARIS, "2026-03-29", ["01:00"]),  # 02:00 becomes 03:00, so that is right after it
        ("15,45 2 * * *", PARIS, "2026-03-29", ["01:00"]),  # both lie in the gap, and are one moment
        ("*/20 1-3 * * *", PARIS, "2026-03-29", ["00:00", "00:20", "00:40", "01:00", "01:20", "01:40"]),
        ("30 2 * * *", PARIS, "2026-10-25", ["00:30"]),  # 03:00 becomes 02:00: the first pass
        ("*/30 2 * * *", PARIS, "2026-10-25", ["00:00", "00:30"]),
        ("0 0-23 * * *", PARIS, "2026-10-25", [f"{hour:02}:00" for hour in range(23)]),
        ("30 * * * *", PARIS, "2026-10-25", [f"{hour:02}:30" for hour in range(23)]),  # both passes
        ("30 * * * *", PARIS, "2026-03-29", [f"{hour:02}:30" for hour in range(22)]),
        ("4 16 * * *", NEW_YORK, "2026-03-08", ["20:04"]),
        ("4 16 * * *", NEW_YORK, "2026-11-01", ["21:04"]),
        ("0 1 * * *", NEW_YORK, "2026-11-01", ["05:00"]),
        ("0 0 * * *", "America/Havana", "2026-03-08", ["05:00"]),  # midnight is left out
        ("10 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["15:30"]),  # a gap of half an hour
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", ["14:45"]),  # a fold of half an hour
    ],
)
def test_when_the_clocks_change(expression: str, zone: str, day: str, due: list[str]) -> None:
    here = ZoneInfo(zone)
    start = datetime.fromisoformat(day).replace(tzinfo=here).astimezone(UTC)
    end = (datetime.fromisoformat(day) + timedelta(days=1)).replace(tzinfo=here).astimezone(UTC)
    found = [one for one in moments(expression, zone, start - MINUTE, end) if start <= one < end]
    around = Random(7)
    for instant in (start + timedelta(seconds=around.uniform(0, 86_400)) for _ in range(200)):
        following = [one for one in found if one > instant][:1]
        assert not following or Cron(expression, zone).after(instant) == following[0], instant
    if expression.startswith("30 * ") or expression == "0 0-23 * * *":
        assert len(found) == (end - start) // timedelta(hours=1)
        assert {later - one for one, later in pairwise(found)} == {timedelta(hours=1)}
    else:
        assert [one.strftime("%H:%M") for one in found] == due


@pytest.mark.parametrize("zone", [PARIS, NEW_YORK])
def test_every_minute_is_every_minute(zone: str) -> None:
    for start in (at("2026-03-01"), at("2026-10-20")):
        found = moments("* * * * *", zone, start, start + timedelta(days=15))
        assert len(found) == 15 * 24 * 60 - 1
        assert {later - one for one, later in pairwise(found)} == {MINUTE}


# -- against a scan of minutes ----------------------------------------------------------------------------------------

ZONES = (PARIS, NEW_YORK, "Australia/Lord_Howe", "America/Havana", "Africa/Casablanca", "Asia/Kolkata", "UTC")
EXPRESSIONS = (
    "30 2 * * *",
    "*/15 2 * * *",
    "0 * * * *",
    "*/7 * * 3,4,10,11 sat,sun",
    "15,45 1-3 * * *",
    "0 0 * * *",
    "30 0 * * 0",
    "*/20 * * 3,10 sun",
    "0 */2 * * *",
    "59 23 l * *",
    "0 12 13 * 5",
    "30 * 1 11 *",
)
FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("zone", ZONES)
def test_four_years_are_as_a_scan_of_their_minutes_finds_them(zone: str) -> None:
    chance, here = Random(7), ZoneInfo(zone)
    days = [FIRST + timedelta(days=day) for day in range(2, (LAST - FIRST).days - 40)]
    changes = [day for day in days if day.astimezone(here).utcoffset() != (day + timedelta(days=1)).astimezone(here).utcoffset()]
    assert bool(changes) == (zone not in ("UTC", "Asia/Kolkata"))
    for expression in EXPRESSIONS:
        expected, cron = scan(expression, zone, FIRST, LAST), Cron(expression, zone)
        span = timedelta(days=40) if len(expected) > 20_000 else LAST - FIRST
        begin = FIRST if span == LAST - FIRST else FIRST + chance.random() * (LAST - FIRST - span)
        found = moments(expression, zone, begin - timedelta(seconds=1), begin + span)
        assert found == [one for one in expected if begin <= one < begin + span], expression
        # And from any instant around the changes, where a wrong start would show.
        for change in changes:
            for _ in range(8):
                instant = change + timedelta(seconds=chance.uniform(-86_400, 2 * 86_400))
                later = bisect_right(expected, instant)
                assert cron.after(instant) == (expected[later] if later < len(expected) else cron.after(LAST - MINUTE)), (
                    expression,
                    instant,
                )


# -- what an expression may be ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "after", "due"),
    [
        ("0 0 29 2 *", "2096-03-01T00:00", "2104-02-29T00:00"),
        ("0 0 13 * 5", "2026-02-01T00:00", "2026-02-06T00:00"),  # a Friday, or a 13th
        ("0 0 13 * 5", "2026-04-11T00:00", "2026-04-13T00:00"),
        ("48 14 31 6 0", "2026-01-01T00:00", "2026-06-07T14:48"),  # June has no 31st, and has Sundays
        ("0 0 * 2 mon#5", "2026-01-01T00:00", "2044-02-29T00:00"),
        ("0 9 L * *", "2026-02-01T00:00", "2026-02-28T09:00"),
        ("@weekly", "2026-11-24T00:00", "2026-11-29T00:00"),
        ("@Hourly", "2026-11-24T00:00", "2026-11-24T01:00"),
    ],
)
def test_what_is_due_next(expression: str, after: str, due: str) -> None:
    assert Cron(expression).after(at(after)) == at(due)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 0 31 4 *", "is never due: month '4' has no day of month '31'"),
        ("0 0 30 2 *", "is never due: month '2' has no day of month '30'"),
        ("0 0 31 2,4,6 *", "is never due: month '2,4,6' has no day of month '31'"),
        ("0 0 1--100000000 * *", "'-100000000' is no day of month, which is 1 to 31"),
        ("0 0 1-100000000 * *", "'100000000' is no day of month, which is 1 to 31"),
        ("61 * * * *", "the cron expression '61 * * * *' cannot be read: '61' is no minute, which is 0 to 59"),
        ("0 9-24 * * *", "'24' is no hour, which is 0 to 23"),
        ("0 1,2,x * * *", "'x' is no hour, which is 0 to 23"),
        ("0 0 1, * *", "'' is no day of month"),
        ("0 0 5- * *", "'5-' is no day of month"),
        ("0 0 1 0 *", "'0' is no month, which is 1 to 12, or jan to dec"),
        ("0 0 * * 8", "'8' is no day of week, which is 0 to 7, where 0 and 7 are Sunday"),
        ("0 0 * * mon#6", "'mon#6' is no day of week"),
        ("30-10 * * * *", "the range '30-10' of its minute must not end before it begins"),
        ("*/0 * * * *", "'0' is no step of its minute, which is 1 to 60"),
        ("*/70 * * * *", "'70' is no step of its minute, which is 1 to 60"),
        ("5,10-20/61 * * * *", "'61' is no step of its minute"),
        ("*/x * * * *", "'x' is no step of its minute"),
        ("0 */25 * * *", "'25' is no step of its hour, which is 1 to 24"),
        ("0 0 * * */8", "'8' is no step of its day of week, which is 1 to 7"),
        ("* * * * * *", "seconds are for every='10s'"),
        ("* * * *", "that has five fields, minute, hour, day of month, month and day of week, such as '30 2 * * *', not 4"),
        ("", "that has five fields"),
        ("1," * 200 + "1 * * * *", "that has at most 200 characters"),
        ("@dayli", "did you mean '@daily'"),
        ("@reboot", "no nickname"),
        (7, "a cron expression is text such as"),
    ],
)
def test_what_cannot_be_an_expression(expression: str, said: str) -> None:
    """Which field, which value, and what is allowed: whoever has five fields before him looks for the one."""
    with pytest.raises(InvalidDefinition, match=re.escape(said)):
        Cron(expression)


@pytest.mark.parametrize("expression", ["*/60 * * * *", "0 */24 * * *", "0 0 */31 * *", "0 0 1 */12 *", "0 0 * * */7"])
def test_the_longest_steps_are_understood(expression: str) -> None:
    """Each means once in the whole of the field above it, as whoever writes it thinks."""
    assert Cron(expression).after(at("2026-01-01T00:00")) > at("2026-01-01T00:00")


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Europe/Pari", "did you mean 'Europe/Paris'"),
        ("../../etc/passwd", "names are those of the IANA database"),
        ("Europe", "names are those of the IANA database"),
        ("", "there is no time zone ''"),
        (None, "is the name of a time zone"),
    ],
)
def test_what_cannot_be_a_zone(zone: str, said: str) -> None:
    with pytest.raises(InvalidDefinition, match=said):
        read_zone(zone)


def test_a_machine_without_zones_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    with pytest.raises(InvalidDefinition, match="install the package tzdata"):
        read_zone("Mars/Olympus")
    assert read_zone("UTC") is UTC


def test_either_day_is_said_as_either() -> None:
    assert Cron("0 0 13 * 5").explain() == "At 00:00 on the 13th day of month, or on Friday"
    assert " or " not in Cron("0 0 13 * *").explain()


def test_an_interval_means_the_same_moments_everywhere() -> None:
    every = Every(timedelta(minutes=10))
    assert every.after(at("2026-03-29T00:00")) == at("2026-03-29T00:10")
    assert every.after(at("2026-03-29T00:09") + timedelta(seconds=59.999999)) == at("2026-03-29T00:10")
    assert every.explain() == "Every 10m"
