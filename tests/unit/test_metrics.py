"""Numbers from rollups and counts, as tables of cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward.metrics import LATEST, Backlog, Flow, Metrics, Total, add_rollups, flows, shown_count
from onward.rollups import Rollup, bucket_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rollup(outcome: str, count: int, *, minute: str = "2026-03-01T11:59", type_: str = "a", worker: str = "w", ran: float = 0.5) -> Rollup:
    times = {bucket_of(ran): count}
    return Rollup(minute=minute, queue="q", type=type_, outcome=outcome, worker=worker, count=count, waited=times, ran=times)


def flow(**outcomes: int) -> Flow:
    return Flow(queue="q", type="a", seconds=3600, outcomes=outcomes)


def test_flows_are_summed_over_minutes_and_workers() -> None:
    found = flows([rollup("completed", 3), rollup("completed", 2, minute="2026-03-01T11:58", worker="v"), rollup("retried", 1)], HOUR)
    assert [(one.lane, one.outcomes) for one in found] == [(("q", "a"), {"completed": 5, "retried": 1})]
    assert found[0].ran == found[0].waited == {bucket_of(0.5): 6}
    assert found[0].run(0.5) == pytest.approx(0.5, rel=0.05)


def test_flows_leave_the_rollups_as_they_were() -> None:
    first, second = rollup("completed", 3), rollup("completed", 2)
    flows([first, second], HOUR)
    add_rollups([], [first, second])
    assert (first, second) == (rollup("completed", 3), rollup("completed", 2))


@pytest.mark.parametrize(
    ("ended", "done", "success"),
    [
        (flow(), 0, None),
        (flow(retried=5, snoozed=2, released=1, lost=3), 0, None),
        (flow(completed=19, dead_lettered=1, retried=100), 20, 0.95),
        (flow(dead_lettered=4), 4, 0.0),
        (flow(cancelled=2), 2, None),
    ],
)
def test_a_retry_is_no_end_and_a_cancel_no_failure(ended: Flow, done: int, success: float | None) -> None:
    assert (ended.done, ended.success_rate) == (done, success)
    assert ended.per_minute == done / 60


def test_lost_leases_are_told_by_the_minute() -> None:
    assert flow(lost=30).lost_per_minute == 0.5


@pytest.mark.parametrize(
    ("depth", "done", "drained"),
    [(0, 0, timedelta(0)), (0, 60, timedelta(0)), (120, 60, timedelta(hours=2)), (1, 0, None)],
)
def test_the_time_to_drain_is_that_at_the_pace_of_the_last_minutes(depth: int, done: int, drained: timedelta | None) -> None:
    backlog = Backlog(queue="q", type="a", due=depth)
    of_others = Backlog(queue="q", type="b", due=1000)
    metrics = Metrics(at=NOW, window=HOUR, backlog=(backlog, of_others), latest=(flow(completed=done),) if done else ())
    assert metrics.drained_in(("q", "a")) == drained


def test_what_is_blocked_belongs_to_the_depth() -> None:
    assert Backlog(queue="q", type="a", due=2, blocked={"breaker": 3, "type": 1}).depth == 6


def test_totals_only_grow_and_keep_their_first_minute() -> None:
    first = add_rollups([], [rollup("completed", 3), rollup("retried", 1)])
    assert [(one.outcome, one.since, one.count) for one in first] == [
        ("completed", "2026-03-01T11:59", 3),
        ("retried", "2026-03-01T11:59", 1),
    ]
    second = add_rollups(first, [rollup("completed", 4, minute="2026-03-01T12:07")])
    assert second[0] == Total(
        queue="q",
        type="a",
        outcome="completed",
        since="2026-03-01T11:59",
        count=7,
        waited={bucket_of(0.5): 7},
        ran={bucket_of(0.5): 7},
    )
    assert second[1] == first[1]


@pytest.mark.parametrize(
    ("count", "is_capped", "shown"),
    [(7, False, "7"), (1234, False, "1,234"), (10_000, True, "10k+"), (12, True, "12+"), (10_000, False, "10,000")],
)
def test_a_bound_is_shown(count: int, is_capped: bool, shown: str) -> None:
    assert shown_count(count, is_capped=is_capped) == shown


def test_what_is_left_out_is_nothing() -> None:
    assert timedelta(minutes=5) == LATEST
    assert not Backlog(queue="q", type="a").is_capped
    assert (flow().lost_per_minute, flow().wait(0.5), flow().run(0.5)) == (0.0, None, None)
    assert flow(lost=30).lost_per_minute == 0.5


def test_how_long_runs_waited_is_another_number_than_how_long_they_took() -> None:
    both = Flow(queue="q", type="a", seconds=60, waited={bucket_of(2.0): 1}, ran={bucket_of(0.1): 1})
    assert (both.wait(0.5), both.run(0.5)) == (pytest.approx(2.0, rel=0.05), pytest.approx(0.1, rel=0.05))


def test_the_time_to_drain_grows_with_what_waits_and_falls_with_the_pace() -> None:
    waiting = Backlog(queue="q", type="a", due=600)
    latest = Flow(queue="q", type="a", seconds=300, outcomes={"completed": 1500})
    look = Metrics(at=NOW, window=HOUR, backlog=(waiting,), latest=(latest,))
    assert look.drained_in(("q", "a")) == timedelta(minutes=2)


def test_a_total_knows_the_earliest_minute_of_all() -> None:
    (first,) = add_rollups([], [rollup("completed", 1, minute="2026-03-01T11:30")])
    (later,) = add_rollups([first], [rollup("completed", 1, minute="2026-03-01T11:59")])
    (earlier,) = add_rollups([later], [rollup("completed", 1, minute="2026-03-01T10:00")])
    assert (first.since, later.since, earlier.since) == ("2026-03-01T11:30", "2026-03-01T11:30", "2026-03-01T10:00")
