"""Rollups: into which bucket a time falls, what a percentile is, and what a worker writes after tries whose end it does not know."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest

from onward.outcome import Completed, DeadLettered
from onward.rollups import GROWTH, Rollup, Tally, bucket_of, minute_of, quantile, summed
from onward.testing.factories import make_job
from onward.turn import Claim, Settlement

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def ended(*, waited: float = 2.0, seconds: float | None = 0.5, dead: bool = False, queue: str = "default") -> Settlement:
    due = NOON - timedelta(seconds=waited)
    job = make_job(queue=queue, scheduled_at=due, started_at=None if seconds is None else NOON)
    return Settlement(claim=Claim(job, MINUTE), outcome=DeadLettered("no") if dead else Completed(), seconds=seconds)


@pytest.mark.parametrize("seconds", [1e-6, 1e-5, 0.00033, 0.5, 1.0, 61.5, 86400.0, 1e8])
def test_the_middle_of_a_bucket_is_at_most_five_percent_off(seconds: float) -> None:
    middle = quantile({bucket_of(seconds): 1}, 0.5)
    assert middle == pytest.approx(seconds, rel=0.05)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-7, 1e-6])
def test_what_takes_no_time_is_in_the_first_bucket(seconds: float) -> None:
    """A clock that was set back makes negative waits."""
    assert bucket_of(seconds) == 0


def test_no_time_is_too_long_for_a_bucket() -> None:
    assert bucket_of(1e300) == bucket_of(1e12) < 400


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_percentiles_of_a_known_distribution_are_within_five_percent(share: float) -> None:
    chance = random.Random(1)
    times = sorted(chance.lognormvariate(-2, 1) for _ in range(20_000))
    histogram: dict[int, int] = {}
    for one in times:
        histogram[bucket_of(one)] = histogram.get(bucket_of(one), 0) + 1
    assert quantile(histogram, share) == pytest.approx(times[int(share * len(times))], rel=0.05)


def test_a_quantile_is_the_first_bucket_that_reaches_the_share() -> None:
    middle = {bucket: GROWTH ** (bucket + 0.5) / 1e6 for bucket in (10, 20)}
    assert quantile({20: 1, 10: 1}, 0.5) == middle[10]
    assert quantile({20: 1, 10: 1}, 0.51) == middle[20]
    assert quantile({}, 0.5) is None


def test_a_minute_is_that_of_utc() -> None:
    east = datetime(2026, 1, 1, 5, 29, 59, 999_999, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert minute_of(east) == "2025-12-31T23:59"


def test_a_tally_counts_by_minute_queue_type_and_outcome() -> None:
    written = Tally("me").add([ended(), ended(waited=3.0), ended(dead=True), ended(queue="slow")], NOON)
    assert [(one.minute, one.queue, one.outcome, one.worker, one.count) for one in written.values] == [
        ("2026-01-01T12:00", "default", "completed", "me", 2),
        ("2026-01-01T12:00", "default", "dead_lettered", "me", 1),
        ("2026-01-01T12:00", "slow", "completed", "me", 1),
    ]
    assert written.values[0].waited == {bucket_of(2.0): 1, bucket_of(3.0): 1}
    assert written.values[0].ran == {bucket_of(0.5): 2}
    assert written.corrected == ()


def test_a_job_that_never_started_has_no_times() -> None:
    (only,) = Tally("me").add([ended(seconds=None)], NOON).values
    assert (only.count, only.waited, only.ran) == (1, {}, {})


def test_what_is_confirmed_is_built_upon() -> None:
    tally = Tally("me")
    tally.add([ended()], NOON)
    tally.confirm()
    assert [one.count for one in tally.add([ended()], NOON).values] == [2]


def test_what_is_not_confirmed_is_counted_anew() -> None:
    """The try was rolled back, or is repeated: its settlements come again."""
    tally = Tally("me")
    tally.add([ended()], NOON)
    again = tally.add([ended(), ended()], NOON)
    assert ([one.count for one in again.values], again.corrected) == ([2], ())


def test_what_a_try_may_have_stored_is_set_right_until_that_is_confirmed() -> None:
    tally = Tally("me")
    tally.add([ended()], NOON)
    tally.confirm()
    tally.add([ended(), ended(dead=True)], NOON)
    for _ in range(2):
        later = tally.add([ended()], NOON + MINUTE)
        assert [(one.minute[-2:], one.count) for one in later.values] == [("01", 1)]
        assert [(one.minute[-2:], one.outcome, one.count) for one in later.corrected] == [
            ("00", "completed", 1),
            ("00", "dead_lettered", 0),
        ]
    tally.confirm()
    assert tally.add([], NOON + MINUTE).corrected == ()


def test_a_try_that_settled_nothing_confirms_nothing_of_the_one_before() -> None:
    tally = Tally("me")
    tally.add([ended()], NOON)
    assert [one.count for one in tally.add([], NOON).corrected] == [0]
    tally.confirm()
    assert [one.count for one in tally.add([ended()], NOON).values] == [1]


def test_minutes_that_are_over_are_forgotten() -> None:
    """A worker runs for months."""
    tally = Tally("me")
    for number in range(3):
        tally.add([ended()], NOON + number * MINUTE)
        tally.confirm()
    assert list(tally._confirmed) == [("2026-01-01T12:02", "default", "work", "completed")]


def test_a_value_that_was_handed_out_does_not_change_with_the_next() -> None:
    tally = Tally("me")
    (first,) = tally.add([ended()], NOON).values
    tally.confirm()
    tally.add([ended()], NOON)
    assert (first.count, first.ran) == (1, {bucket_of(0.5): 1})


def test_sums_are_by_cell_and_name_no_worker() -> None:
    def rollup(worker: str, minute: str, **counts: int) -> Rollup:
        return Rollup(minute=minute, queue="q", type="t", outcome="completed", worker=worker, waited={1: 1}, ran={2: 3}, **counts)

    one, other, later = rollup("a", "1", count=2), rollup("b", "1", count=3), rollup("a", "0", count=1)
    total = summed([one, other, later])
    assert [(each.worker, each.minute, each.count, each.waited, each.ran) for each in total] == [
        ("", "0", 1, {1: 1}, {2: 3}),
        ("", "1", 5, {1: 2}, {2: 6}),
    ]
    assert (one.count, one.waited, one.worker) == (2, {1: 1}, "a")


def test_a_clock_that_steps_back_overwrites_nothing() -> None:
    """What was stored of an earlier minute is not remembered any more, so it is counted there under another name, and from nothing."""
    tally = Tally("me")
    tally.add([ended(), ended()], NOON)
    tally.confirm()
    tally.add([ended()], NOON + MINUTE)
    tally.confirm()
    (back,) = tally.add([ended()], NOON).values
    tally.confirm()
    (again,) = tally.add([ended()], NOON).values
    assert (back.minute, back.count, again.count) == (minute_of(NOON), 1, 2)
    assert back.worker == again.worker != "me"
    assert back.worker.startswith("me:")


def test_what_is_doubtful_when_the_clock_steps_back_is_set_right_under_its_own_name() -> None:
    """The try before may have been stored."""
    tally = Tally("me")
    tally.add([ended()], NOON + MINUTE)
    tally.confirm()
    tally.add([ended()], NOON + MINUTE)
    for _ in range(2):
        written = tally.add([ended()], NOON)
        assert [(one.minute, one.worker, one.count) for one in written.corrected] == [(minute_of(NOON + MINUTE), "me", 1)]
        assert [(one.minute, one.count) for one in written.values] == [(minute_of(NOON), 1)]
    tally.confirm()
    assert tally.add([], NOON).corrected == ()


def test_after_a_step_forth_and_back_counts_go_on_at_once() -> None:
    """Not only when the wrong time is reached."""
    tally = Tally("me")
    for moment in (NOON, NOON + 60 * MINUTE, NOON, NOON, NOON + MINUTE):
        (value,) = tally.add([ended()], moment).values
        tally.confirm()
    assert (value.minute, value.count) == (minute_of(NOON + MINUTE), 1)
    assert list(tally._confirmed) == [("2026-01-01T12:01", "default", "work", "completed")]
