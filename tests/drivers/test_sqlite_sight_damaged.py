"""What somebody wrote by hand into what people look at: each row stops only itself, and everything else is still seen and told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward.alert_rules import AlertRules
from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.look import look
from onward.presence import Presence
from onward.rollups import Tally
from onward.testing.conformance.rollups import end
from onward.testing.conformance.steps import enqueue

RULES = AlertRules(depth=0, lasts=0)
NAIVE = "2026-01-01 00:00:00"
ALERT = "(id, category, severity, cause, message, opened_at) VALUES"
ROLLUP = "(minute, queue, type, outcome, worker, count, histogram) VALUES ('2026-01-01T00:00', 'q', 't', 'completed', 'w', 'abc', '')"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    with closing(SQLiteStore(tmp_path / "jobs.db", clock=FakeClock())) as store:
        store.announce(Presence(lease_owner="a", name="a", types=("work",)))
        store.take_look(RULES.every)
        enqueue(store)
        yield store


def damage(store: SQLiteStore, *statements: str) -> None:
    with closing(sqlite3.connect(store.path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE onward_jobs SET scheduled_at = '{NAIVE}'",
        f"UPDATE onward_workers SET seen_at = '{NAIVE}'",
        "UPDATE onward_workers SET types = 'none'",
        "UPDATE onward_workers SET queues = '[7]'",
        f"UPDATE onward_conditions SET since = '{NAIVE}'",
        "UPDATE onward_conditions SET since = 'soon'",
        f"INSERT INTO onward_conditions (cause, is_open, since) VALUES ('depth:default/work', 0, '{NAIVE}')",
        f"INSERT INTO onward_rollups {ROLLUP}",
        f"INSERT INTO onward_alerts {ALERT} ('x', 'c', 'info', 'y', 'm', '{NAIVE}')",
        f"INSERT INTO onward_alerts {ALERT} ('x', 'c', 'dire', 'y', 'm', '2026-01-01T00:00:00.000000Z')",
    ],
    ids=range(10),
)
def test_a_row_stops_only_itself(store: SQLiteStore, statement: str) -> None:
    damage(store, statement)
    store.look_out(RULES.every)
    store.take_look(RULES.every)
    other = enqueue(store, type="mail")
    verdict = store.judge(RULES, look(store))
    assert "depth:default/mail" in {one.cause for one in verdict.opened}
    told = store.tell_alerts()
    assert "depth:default/mail" in {one.cause for one in told.opened}
    assert store.alerts(is_open=True)
    assert store.due_before(store.get(other.id)) >= 0
    store.workers()


def test_a_type_too_long_to_be_one_keeps_no_other_from_being_told(store: SQLiteStore) -> None:
    damage(store, "UPDATE onward_jobs SET type = printf('%.*c', 300000, 'x')")
    enqueue(store, type="mail")
    assert [one.cause for one in store.judge(RULES, look(store)).opened] == ["depth:default/mail"]


def test_what_was_counted_before_the_clock_went_back_is_not_of_this_hour(tmp_path: Path) -> None:
    clock = FakeClock()
    with closing(SQLiteStore(tmp_path / "jobs.db", clock=clock)) as store:
        clock.advance(6 * 3600)
        end(store, Tally("w"))
        assert [one.done for one in look(store).flows] == [1]
        clock.advance(-6 * 3600)
        assert look(store).flows == look(store).latest == ()
        clock.advance(6 * 3600 + 120)
        assert [one.done for one in look(store).flows] == [1]
