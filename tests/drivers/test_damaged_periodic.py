"""Rows of periodic jobs that somebody wrote by hand: they are named, and keep nobody from those beside them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from onward.app import Onward
from onward.clock import FakeClock
from onward.definition import define_job
from onward.drivers.postgres.driver import PostgresStore
from onward.drivers.sqlite.driver import SQLiteStore
from onward.errors import InvalidDefinition
from onward.inspection import JobFilter
from onward.periodic import Periodic
from onward.worker.scheduler import Scheduler

report = define_job("report", lambda: None)
DAMAGE = [
    "rule = 'no JSON'",
    'rule = \'{"cron":"0 0 30 2 *"}\'',
    'rule = \'{"every":"0s"}\'',
    'rule = \'{"every":"1m","timezone":5}\'',
    'rule = \'{"cron":"@daily","timezone":"Moon/Base"}\'',
    'rule = \'{"every":"1m","catch_up":"all","most_catch_up":0}\'',
    'rule = \'{"every":"1m","jitter":"soon"}\'',
    "request = '{}'",
    "request = 'null'",
    'request = \'{"type":"report","payload":"null","payload_hash":"x","metadata":"[]"}\'',
    "paused_by = 'nobody'",
]
Damage = Callable[[str], None]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "postgres"])
def damaged(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> tuple[Onward, Damage]:
    """An application with two periodic jobs, and what changes the row of one by hand."""
    if request.param == "sqlite":
        store: SQLiteStore | PostgresStore = SQLiteStore(tmp_path / "jobs.db", clock=clock)

        def damage(change: str) -> None:
            with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
                connection.execute(f"UPDATE onward_periodic SET {change} WHERE name = 'broken'")
    else:
        store = request.getfixturevalue("store")
        store.clock = clock
        store._database._clock = clock

        def damage(change: str) -> None:
            with store.transaction() as connection:
                connection.execute(f"UPDATE \"{store.schema}\".periodic SET {change} WHERE name = 'broken'")

    app = Onward(store=store, jobs=[report])
    for name in ("broken", "whole"):
        app.periodic.put(Periodic(report, every="1m", name=name))
    return app, damage


@pytest.mark.parametrize("change", DAMAGE)
def test_a_row_that_makes_no_sense_is_named_and_stops_no_other(
    damaged: tuple[Onward, Damage], clock: FakeClock, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, damage = damaged
    damage(change)
    clock.advance(timedelta(minutes=1))
    Scheduler(app.store, app.definitions, (), clock=clock, chance=Random(7)).tick()
    assert [record.getMessage() for record in caplog.records] == [
        "periodic job broken cannot be read, so it is never due: correct its row, or delete it"
    ]
    assert app.store.count(JobFilter()) == 1
    assert [row.name for row in app.periodic.list()] == ["whole"]
    with pytest.raises(InvalidDefinition, match="broken cannot be read"):
        app.periodic.pause("broken")
    app.periodic.delete("broken")
    assert app.store.periodic().unreadable == ()
