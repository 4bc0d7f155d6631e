"""The moments of a cron expression found by going through the minutes, to compare ``onward.cron`` with."""

from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

from cronsim import CronSim

MINUTE = timedelta(minutes=1)


def scan(expression: str, zone: str, first: datetime, last: datetime) -> list[datetime]:
    """Every moment from ``first`` to before ``last``, from the rule minute by minute where the clocks change, day by day elsewhere."""
    here, fields = ZoneInfo(zone), CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - only its fields are read
    follows_elapsed_time = len(fields.hours) == 24
    times = sorted(product(fields.hours, fields.minutes))
    found: list[datetime] = []
    day = first.astimezone(here).replace(hour=0, minute=0, tzinfo=None)
    while day.replace(tzinfo=here) < last:
        begin, end = (one.replace(tzinfo=here).astimezone(UTC) for one in (day, day + timedelta(days=1)))
        if end - begin == timedelta(days=1):
            if fields.match_day(day.date()) and day.month in fields.months:
                found += [begin + timedelta(hours=hour, minutes=minute) for hour, minute in times]
        else:
            found += _scan_change(fields, here, begin, end, follows_elapsed_time)
        day += timedelta(days=1)
    return [one for one in found if first <= one < last]


def _scan_change(fields: CronSim, here: ZoneInfo, begin: datetime, end: datetime, follows_elapsed_time: bool) -> list[datetime]:
    def is_named(local: datetime) -> bool:
        return (
            local.minute in fields.minutes
            and local.hour in fields.hours
            and local.month in fields.months
            and fields.match_day(local.date())
        )

    found = []
    latest = (begin - MINUTE).astimezone(here).replace(tzinfo=None)
    instant = begin
    while instant < end:
        local = instant.astimezone(here).replace(tzinfo=None)
        if follows_elapsed_time:
            is_due = is_named(local)
        else:  # whatever the clocks have come to or passed over since the latest time that they have shown
            is_due, passed = False, latest + MINUTE
            while passed <= local:
                is_due = is_due or is_named(passed)
                passed += MINUTE
            latest = max(latest, local)
        if is_due:
            found.append(instant)
        instant += MINUTE
    return found
