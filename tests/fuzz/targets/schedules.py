"""Cron expressions, time zones, and the rows of periodic jobs that somebody wrote by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from onward.cron import Cron
from onward.drivers.sql.periodic import PERIODIC_COLUMNS, periodic
from onward.drivers.sql.statements import Many, Row, Statement
from onward.errors import InvalidDefinition
from onward.moments import PeriodicLook, fire
from onward.steps import drive
from tests.fuzz.target import Target, as_text, declared, must, texts

NOW = datetime(2026, 3, 29, 0, 59, 59, 500_000, tzinfo=UTC)
LONGEST_TEXT = 700
WRITTEN = "2026-03-29T00:00:00.000000Z"


def check(data: bytes) -> None:
    expression, _, zone = as_text(data).partition("|")
    with declared(InvalidDefinition, longest=LONGEST_TEXT):
        cron = Cron(expression, zone or "UTC")
        must(bool(cron.explain()), "an expression has no words")
        instant = NOW
        for _ in range(3):
            following = cron.after(instant)
            must(following > instant, "the next moment is not later")
            must(following - instant < timedelta(days=366 * 50), "the next moment is out of sight")
            must(following.utcoffset() == timedelta(0), "a moment is not in UTC")
            instant = following


def check_row(data: bytes) -> None:
    rule, _, request = as_text(data).partition("|")

    def execute(wanted: Statement | Many) -> list[Row]:
        if wanted.name == "next_moment":
            return [(WRITTEN, WRITTEN, None)]
        values = ("name", rule, request, 1, WRITTEN, None, None, None, None, 0, 1, WRITTEN)
        return [values] if len(values) == len(PERIODIC_COLUMNS) else []

    look: PeriodicLook = drive(execute, periodic(None, None))
    must(len(look.rows) + len(look.unreadable) == 1, "a row is gone")
    for row in look.rows:
        fired = fire(row, NOW, Random(1))
        must(fired.row.next_moment > NOW, "a moment is due for ever")


TARGET = Target(
    "schedules",
    check,
    texts("30 2 * * *", "*/15 * * * *", "0 0 29 2 *", "0 0 30 2 *", "0 0 1--100000000 * *", "@daily", "0 0 L * mon#5", "0 9 lw * 5l")
    | texts(
        "30 2 * * *|Europe/Paris", "* * * * *|../etc/passwd", "0 0 * * *|Australia/Lord_Howe", "٣ * * * *", "0 0 13 * 5|America/Havana"
    ),
    ("*", "/", "-", ",", "#", "L", "W", "mon", "jan", "@", "|Europe/Paris", "|UTC", " "),
)
ROWS = Target(
    "schedule-rows",
    check_row,
    texts('{"every":"10m"}|{"type":"a","payload":"1","payload_hash":"x"}', '{"cron":"@daily","timezone":"Europe/Paris"}|{}', "{}|{}", "|")
    | texts('{"every":"0s"}|{"type":"a","payload":"1","payload_hash":"x"}', '{"every":"1h","jitter":"-1s"}|{"type":1}', "null|[]"),
    ('"cron":', '"every":', '"jitter":', '"catch_up":"all"', '"most_catch_up":', '"scope":', '"metadata":', "{", "}", "[", "1e9", "null"),
)
