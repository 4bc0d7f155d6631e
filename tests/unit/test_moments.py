from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onward.breaker import Breaker
from onward.definition import define_job
from onward.errors import InvalidDefinition, InvalidPayload
from onward.ids import is_id
from onward.jobs import NewJob
from onward.limit import Limit
from onward.moments import LATE, PeriodicChange, adopt, declare, fire, is_known, moment_id, pause, resume, rewind, run_now
from onward.periodic import Periodic, PeriodicJob
from onward.retry import RetryPolicy
from onward.testing.factories import make_new_job

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def work() -> None:
    """Never called."""


report = define_job("report", work)


def declared(cron: str | None = None, *, now: datetime = NOW, **options: Any) -> PeriodicJob:
    change = declare(Periodic(report, cron, **options), None, now)
    assert change is not None
    return replace(change.row, version=1)


def fired(row: PeriodicJob, now: datetime) -> PeriodicChange:
    return fire(row, now, Random(7))


# -- what is due ------------------------------------------------------------------------------------------------------


def test_a_moment_on_time() -> None:
    row = declared(every="1h")
    change = fired(row, NOW + HOUR)
    (job,) = change.jobs
    assert (job.at, job.id, job.type) == (NOW + HOUR, moment_id("report", NOW + HOUR), "report")
    assert (change.row.next_moment, change.row.last_moment, change.row.skipped) == (NOW + 2 * HOUR, NOW + HOUR, 0)
    assert change.row.version == row.version, "who writes it says which one was read"


@pytest.mark.parametrize(
    ("catch_up", "late", "hours", "skipped"),
    [
        ("once", 2 * DAY, [49], 48),
        ("once", timedelta(0), [1], 0),
        ("all", 2 * DAY, list(range(1, 50)), 0),
        ("skip", timedelta(0), [1], 0),
        ("skip", LATE, [1], 0),
        ("skip", LATE + timedelta(microseconds=1), [], 1),
        ("skip", 2 * DAY, [49], 48),
        ("skip", 2 * DAY + MINUTE * 2, [], 49),
    ],
)
def test_what_was_missed(catch_up: Any, late: timedelta, hours: list[int], skipped: int) -> None:
    """Moments are at the full hour; the outage ends at one, or a little later."""
    change = fired(declared(every="1h", catch_up=catch_up), NOW + HOUR + late)
    assert [job.at for job in change.jobs] == [NOW + hour * HOUR for hour in hours]
    assert change.row.skipped == skipped
    assert change.row.next_moment == NOW + HOUR + late + HOUR - (late % HOUR)


def test_of_all_that_were_missed_the_newest_are_caught_up() -> None:
    change = fired(declared(every="1h", catch_up="all", most_catch_up=3), NOW + 10 * HOUR)
    assert [job.at for job in change.jobs] == [NOW + hour * HOUR for hour in (8, 9, 10)]
    assert change.row.skipped == 7


@pytest.mark.parametrize("every", ["1s", "1m"])
def test_ten_years_of_missed_moments_are_not_gone_through(every: str) -> None:
    """The newest are found from the end; the count stops being exact at a thousand."""
    for catch_up, most in (("once", 1), ("all", 5)):
        now = NOW + 3650 * DAY
        change = fired(declared(every=every, catch_up=catch_up, most_catch_up=5), now)
        step = timedelta(seconds=1) if every == "1s" else MINUTE
        assert [job.at for job in change.jobs] == [now - n * step for n in reversed(range(most))]
        assert change.row.skipped == 1000 - most


def test_the_newest_of_rare_moments_are_found_as_well() -> None:
    row = replace(declared("0 0 29 2 *"), next_moment=datetime(1604, 2, 29, tzinfo=UTC))
    assert fired(row, NOW).row.last_moment == datetime(2024, 2, 29, tzinfo=UTC)


def test_jitter_moves_the_job_and_no_moment() -> None:
    row = declared("*/5 * * * *", jitter="30m")
    seen = set()
    for _ in range(50):
        change = fire(row, row.next_moment, Random(len(seen)))
        (job,) = change.jobs
        assert job.at is not None
        assert row.next_moment <= job.at < row.next_moment + 5 * MINUTE, "not beyond the next moment"
        assert change.row.next_moment == row.next_moment + 5 * MINUTE
        seen.add(job.at)
        row = change.row
    assert len(seen) == 50


def test_jitter_around_midnight_skips_no_day() -> None:
    row = declared("0 0 * * *", timezone="America/Los_Angeles", jitter="10s")
    days, here = set(), ZoneInfo("America/Los_Angeles")
    for seed in range(400):
        change = fire(row, row.next_moment + timedelta(seconds=1), Random(seed))
        days.add(change.jobs[0].at.astimezone(here).date())  # type: ignore[union-attr]  # every job of a moment has its time
        row = change.row
    assert len(days) == 400


def test_an_overlap_is_left_out_where_that_is_asked_for() -> None:
    row = declared(every="1h", overlap="skip")
    first = fired(row, NOW + HOUR)
    assert first.unless_live is None, "there was none before"
    second = fired(first.row, NOW + 2 * HOUR)
    assert second.unless_live == first.jobs[0].id
    assert second.instead is not None
    assert (second.instead.last_job_id, second.instead.skipped) == (first.jobs[0].id, 1)
    assert second.instead.next_moment == second.row.next_moment
    assert fired(declared(every="1h"), NOW + HOUR).unless_live is None


@given(
    every=st.integers(1, 10_000).map(lambda seconds: f"{seconds}s"),
    catch_up=st.sampled_from(["once", "all", "skip"]),
    steps=st.lists(st.integers(0, 20_000), max_size=20),
)
def test_every_moment_has_one_job_or_was_skipped(every: str, catch_up: Any, steps: list[int]) -> None:
    row, now, jobs = declared(every=every, catch_up=catch_up), NOW, 0
    seen: set[str] = set()
    for step in steps:
        now += timedelta(seconds=step)
        if row.next_moment <= now:
            change = fired(row, now)
            assert not seen.intersection(job.id for job in change.jobs)
            seen.update(job.id for job in change.jobs)
            jobs, row = jobs + len(change.jobs), change.row
        assert row.next_moment > now
    interval = timedelta(seconds=int(every[:-1]))
    begun = (NOW - datetime(1970, 1, 1, tzinfo=UTC)) // interval
    moments = (now - datetime(1970, 1, 1, tzinfo=UTC)) // interval - begun
    assert jobs + row.skipped == moments or moments > 1000


# -- declared, made, paused -------------------------------------------------------------------------------------------


def test_what_is_declared_as_before_changes_nothing() -> None:
    row = declared("30 2 * * *", timezone="Europe/Paris", queue="low")
    assert declare(Periodic(report, "30 2 * * *", timezone="Europe/Paris", queue="low"), row, NOW + DAY) is None


def test_another_request_keeps_the_moment_that_is_due() -> None:
    """A deploy after an outage must not swallow what was missed."""
    change = declare(Periodic(report, every="1h", queue="low", catch_up="all"), declared(every="1h"), NOW + DAY)
    assert change is not None
    assert (change.row.next_moment, change.row.request.queue, change.row.rule.catch_up) == (NOW + HOUR, "low", "all")


@pytest.mark.parametrize("options", [{"every": "2h"}, {"cron": "0 * * * *"}])
def test_another_rule_begins_anew(options: dict[str, str]) -> None:
    change = declare(Periodic(report, **options), declared(every="1h"), NOW + DAY)  # type: ignore[arg-type]  # either of the two
    assert change is not None
    assert change.row.next_moment > NOW + DAY


def test_another_zone_is_another_rule() -> None:
    change = declare(Periodic(report, "0 2 * * *", timezone="Europe/Paris"), declared("0 2 * * *"), NOW)
    assert change is not None
    assert change.row.next_moment == datetime(2026, 3, 2, 1, tzinfo=UTC)


def test_a_pause_ends_as_it_began() -> None:
    """A person's by a person, and goes on with the next moment; one for want of code by a declaration, and what was missed is caught up."""
    row = declared(every="1h")
    by_person, undeclared = (pause(row, NOW, by) for by in ("person", "undeclared"))  # type: ignore[arg-type]  # two of its values
    assert by_person is not None
    assert undeclared is not None
    assert declare(Periodic(report, every="1h"), by_person.row, NOW + DAY) is None
    declared_again = declare(Periodic(report, every="1h"), undeclared.row, NOW + DAY)
    assert declared_again is not None
    assert (declared_again.row.paused_at, declared_again.row.next_moment) == (None, NOW + HOUR)
    resumed = resume(by_person.row, NOW + DAY)
    assert resumed is not None
    assert (resumed.row.paused_by, resumed.row.next_moment, resumed.row.skipped) == (None, NOW + DAY + HOUR, 0)
    assert pause(by_person.row, NOW, "person") is None
    assert pause(by_person.row, NOW, "undeclared") is None
    taken_over = pause(undeclared.row, NOW + DAY, "person")
    assert taken_over is not None
    assert (taken_over.row.paused_by, taken_over.row.paused_at) == ("person", NOW)
    assert declare(Periodic(report, every="1h"), taken_over.row, NOW + DAY) is None, "no deploy ends it"
    assert resume(row, NOW) is None


def test_a_clock_that_was_set_back() -> None:
    row = fired(declared(every="1h"), NOW + HOUR).row
    assert rewind(row, NOW + HOUR) is None, "the clock has not gone back"
    rewound = rewind(row, NOW - 2 * HOUR)
    assert rewound is not None
    assert rewound.next_moment == NOW - HOUR
    change = adopt(row, NOW - 2 * HOUR)
    assert change is not None
    assert (change.row.next_moment, change.row.updated_at) == (NOW - HOUR, NOW - 2 * HOUR)
    assert adopt(change.row, NOW - 2 * HOUR) is None


def test_who_stands_behind_it() -> None:
    of_code = declared(every="1h")
    made = replace(of_code, is_declared=False)
    assert is_known(of_code, {"report"}, ())
    assert not is_known(of_code, (), {"report"})
    assert is_known(made, (), {"report"})
    assert not is_known(made, {"report"}, ())


def test_one_more_by_hand() -> None:
    row = declared(every="1h", metadata={"a": 1})
    change = run_now(row, "an-id", NOW)
    (job,) = change.jobs
    assert (job.id, job.at, job.metadata) == ("an-id", None, '{"a":1,"periodic":"report"}')
    assert (change.row.last_job_id, change.row.next_moment) == (row.last_job_id, row.next_moment), "overlap is a matter of moments"


def test_the_id_of_a_moment_has_the_form_of_an_id_and_its_time() -> None:
    ids = [moment_id(name, NOW + n * MINUTE) for n in range(100) for name in ("a", "b")]
    assert len(set(ids)) == 200
    assert all(map(is_id, ids))
    assert sorted(ids, key=lambda one: one[:10]) == ids
    assert moment_id("a", NOW) == moment_id("a", NOW.astimezone())


# -- what may be declared ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say when it is due"),
        ({"cron": "* * * * *", "every": "1m"}, "and not by both"),
        ({"every": "1m", "timezone": "Europe/Paris"}, "the same in every time zone"),
        ({"every": "0.5s"}, "a second or longer"),
        ({"every": "1.0005s"}, "whole milliseconds"),
        ({"every": "soon"}, "'soon' is not a duration"),
        ({"every": "1m", "jitter": "2m"}, "at most 1m here"),
        ({"cron": "@daily", "jitter": "2d"}, "at most 1d here"),
        ({"every": "1m", "jitter": "x"}, "'x' is not a duration"),
        ({"every": "1m", "catch_up": "some"}, "catch_up is one of 'skip', 'once', 'all'"),
        ({"every": "1m", "overlap": "maybe"}, "overlap is one of 'allow', 'skip'"),
        ({"every": "1m", "most_catch_up": 0}, "from 1 to 1,000"),
        ({"every": "1m", "most_catch_up": True}, "from 1 to 1,000"),
        ({"every": "1m", "catch_up": "all", "overlap": "skip"}, "which overlap='skip' forbids"),
        ({"every": "1m", "delay": "1m"}, "a periodic job has no option 'delay'"),
        ({"every": "1m", "prority": 1}, "did you mean 'priority'"),
        ({"every": "1m", "catchup": "once"}, "did you mean 'catch_up'"),
        ({"every": "1m", "tz": "UTC"}, "timezone"),
        ({"every": "1m", "name": "with space"}, "a name of a periodic job is"),
        ({"every": "1m", "queue": "with space"}, "a queue is"),
        ({"cron": "0 0 30 2 *"}, "month '2' has no day of month '30'"),
        ({"cron": "@daily", "timezone": "Moon"}, "there is no time zone 'Moon'"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDefinition) as error:
        Periodic(report, **options)
    assert said in str(error.value)


def test_a_payload_is_checked_at_once() -> None:
    def takes(payload: dict[str, int]) -> None:
        """Never called."""

    with pytest.raises(InvalidPayload, match="needs a payload"):
        Periodic(define_job("takes", takes), "@daily")
    with pytest.raises(InvalidDefinition, match="takes what define_job"):
        Periodic(takes, "@daily")  # type: ignore[arg-type]  # that is the mistake


def test_all_that_a_job_may_ask_for_comes_through_what_is_stored() -> None:
    """But for what a moment decides: a field that is added to ``NewJob`` must not be forgotten here."""
    options: dict[str, Any] = {"queue": "low", "priority": -5, "key": "k", "scope": "36h", "owner": "ada", "expires": "2h"}
    rules: dict[str, Any] = {"breaker": Breaker("s3"), "concurrency_key": "c", "limit": Limit(concurrency=1), "serial_key": "s"}
    definition = define_job("all", work, isolated=True, retry=RetryPolicy(9), **rules)
    asked = definition.new_job(None, **options, metadata={"a": 1})
    periodic = Periodic(definition, every="1m", **options, metadata={"a": 1})
    change = declare(periodic, None, NOW)
    assert change is not None
    (job,) = run_now(change.row, asked.id, NOW).jobs
    left_out = {"metadata", "on_duplicate", "delay", "at", "refuses_open_breaker"}
    for name in set(NewJob.__struct_fields__) - left_out:
        assert getattr(job, name) == getattr(asked, name), name
        assert name in ("id", "payload", "payload_hash") or getattr(asked, name) != getattr(make_new_job(), name, None), name
