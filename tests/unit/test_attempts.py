from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Onward, PermanentJobError, define_job
from onward.attempts import AttemptFilter, Place, begin_of, end_of, read_end, read_outcome, read_place
from onward.clock import FakeClock
from onward.errors import InvalidDefinition, InvalidTime
from onward.testing import drain

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("place", [Place(NOW, "01JTDX2F8M6Z0Q4V5N7R9K3B1C", 3), Place(NOW.replace(microsecond=7), "by/hand", 0)])
def test_a_place_is_read_as_it_was_written(place: Place) -> None:
    """To the microsecond: two attempts may have ended in one second."""
    assert read_place(str(place)) == place
    assert read_place(f" {place}\n") == place


NO_PLACES: list[Any] = [
    *("", "/", "//", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00/a/1", "2026-03-01T12:00:00Z/a/-1", "2026-03-01T12:00:00Z//1"),
    *("x/a/1", f"2026-03-01T12:00:00Z/a/{2**60}", "2026-03-01T12:00:00Z/a\x1b/1", "2026-03-01T12:00:00Z/a/²", "1" * 500, 7, None),
]


@pytest.mark.parametrize("text", NO_PLACES)
def test_what_is_no_place_is_refused(text: str) -> None:
    """It comes from URLs and shells."""
    with pytest.raises(InvalidDefinition, match="before= is where the page before says"):
        read_place(text)


def test_a_look_is_between_two_places() -> None:
    """``until`` is not seen itself, ``since`` is; a page never begins behind either."""
    place = Place(NOW, "a", 1)
    assert begin_of(AttemptFilter(), place) == begin_of(AttemptFilter(until=NOW + HOUR), place) == place
    assert begin_of(AttemptFilter(until=NOW), None) == begin_of(AttemptFilter(until=NOW), place) == Place(NOW, "", 0) < place
    assert end_of(AttemptFilter(since=NOW)) == Place(NOW, "", 0)
    assert end_of(AttemptFilter()) < place < begin_of(AttemptFilter(), None)


@pytest.mark.parametrize(
    ("where", "may"),
    [
        (AttemptFilter(), False),
        (AttemptFilter(since=NOW, until=NOW), False),
        (AttemptFilter(types=("a",)), True),
        (AttemptFilter(queues=("a",)), True),
        (AttemptFilter(outcomes=("lost",)), True),
        (AttemptFilter(lease_owner=""), True),
    ],
    ids=range(6),
)
def test_only_what_is_not_in_the_index_may_match_rarely(where: AttemptFilter, may: bool) -> None:
    """By time alone, every one that is looked at is shown."""
    assert where.may_match_rarely is may


def test_an_end_is_a_duration_before_now_or_a_moment() -> None:
    """As a person says it."""
    assert read_end("1h", NOW) == read_end(HOUR, NOW) == read_end(3600, NOW) == read_end("2026-03-01T12:00:00+01:00", NOW) == NOW - HOUR
    assert read_end(NOW, NOW - HOUR) == NOW
    for wrong in ("yesterday", "2026-03-01T12:00:00", -1, datetime(2026, 3, 1)):  # noqa: DTZ001 - naive is what is wrong with it
        with pytest.raises(InvalidTime):
            read_end(wrong, NOW)


def test_an_outcome_that_no_attempt_has_names_the_nearest() -> None:
    """Statuses of jobs are called otherwise."""
    assert read_outcome("lost") == "lost"
    with pytest.raises(InvalidDefinition, match="did you mean 'dead_lettered'"):
        read_outcome("dead_letter")


def fail(payload: int) -> None:
    raise PermanentJobError("hopeless")


def fine(payload: int) -> int:
    return payload


def test_an_application_reads_the_attempts_of_all_its_jobs() -> None:
    """By definition, queue, outcome, process and time; and each page says where the next one begins."""
    clock = FakeClock()
    failing, kept = define_job("fail", fail, queue="slow", aliases=("failed",)), define_job("fine", fine, history="all")
    with Onward("memory://", jobs=[failing, kept], clock=clock) as app:
        app.enqueue(kept, 1)
        app.enqueue_many([failing.new_job(number) for number in range(3)])
        drain(app)
        clock.advance(60)
        first = app.attempts(definition=failing, limit=2)
        second = app.attempts(definition=failing, limit=2, before=first.next)
        assert ([len(page.found) for page in (first, second)], second.next) == ([2, 1], None)
        assert {one.queue for one in first.found} == {"slow"}
        assert [one.type for one in app.attempts(outcome="completed", since="1h").found] == ["fine"]
        assert app.attempts(queue="slow", until="1m").found == app.attempts(worker="nobody").found == ()
        assert len(app.attempts(worker=first.found[0].lease_owner, until=clock.now()).found) == 4
        for wrong in ({"outcome": "failed"}, {"worker": 7}, {"queue": "no queue"}, {"limit": 0}, {"before": "page 2"}):
            with pytest.raises(InvalidDefinition):
                app.attempts(**wrong)


def test_they_can_be_awaited() -> None:
    """As every verb that a web handler uses."""
    with Onward("memory://", jobs=[]) as app:
        assert asyncio.run(app.aattempts(since="1h")).found == ()
