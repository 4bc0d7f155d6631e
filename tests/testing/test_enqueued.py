"""What an application's tests see of what it enqueued."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from onward import InvalidDefinition, InvalidPayload, JobContext, Onward, RetryPolicy, define_job
from onward.testing import FakeClock, assert_enqueued, drain, enqueued_jobs, refute_enqueued, scheduled_jobs


@dataclass
class Welcome:
    user_id: str


def send(payload: Welcome, ctx: JobContext) -> None:
    raise ValueError("no such user")


welcome = define_job("send-welcome", send, queue="mail", retry=RetryPolicy(max_attempts=2, base="10s"), aliases=("hello",))
tidy = define_job("tidy-up", lambda: None)


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Onward]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}[request.param]
    with Onward(url, jobs=[welcome, tidy], clock=FakeClock()) as app:
        yield app


def test_due_jobs_and_later_ones_are_told_apart(app: Onward) -> None:
    """What runs now and what was only promised are different assertions."""
    app.enqueue(tidy)
    app.enqueue(welcome, Welcome("1"))
    app.enqueue(welcome, Welcome("2"), delay="3d")
    app.enqueue(welcome, Welcome("3"), delay="1d")
    assert [job.type for job in enqueued_jobs(app)] == ["tidy-up", "send-welcome"]
    assert [job.payload for job in enqueued_jobs(app, welcome)] == ['{"user_id":"1"}']
    assert [job.payload for job in scheduled_jobs(app)] == ['{"user_id":"3"}', '{"user_id":"2"}']
    assert scheduled_jobs(app, tidy) == []


def test_a_retry_waits_among_the_scheduled_jobs(app: Onward) -> None:
    """A test of the back-off looks here."""
    app.enqueue(welcome, Welcome("1"))
    drain(app)
    assert enqueued_jobs(app) == []
    assert [job.attempts for job in scheduled_jobs(app, welcome)] == [1]


def test_assert_enqueued_finds_a_job_by_payload_and_fields(app: Onward) -> None:
    """The decoded payload is compared, so a test speaks of its own types and not of JSON."""
    first = app.enqueue(welcome, Welcome("1"), key="one", priority=3, delay="5m", owner="ada")
    app.enqueue(welcome, Welcome("2"))
    assert assert_enqueued(app, welcome, Welcome("1")).id == first.id
    assert assert_enqueued(app, welcome, key="one", priority=3, queue="mail", delay=timedelta(minutes=5), owner="ada").id == first.id
    assert assert_enqueued(app, welcome).payload == '{"user_id":"1"}'


ASSERTIONS: dict[str, Callable[[Onward], object]] = {
    "another job": lambda app: assert_enqueued(app, tidy),
    "another payload": lambda app: assert_enqueued(app, welcome, Welcome("9")),
    "another field": lambda app: assert_enqueued(app, welcome, Welcome("1"), priority=9),
    "another delay": lambda app: assert_enqueued(app, welcome, delay=timedelta(seconds=1)),
    "any": lambda app: refute_enqueued(app, welcome),
    "its payload": lambda app: refute_enqueued(app, welcome, Welcome("1")),
    "its queue": lambda app: refute_enqueued(app, welcome, queue="mail"),
}


@pytest.mark.parametrize("assertion", ASSERTIONS.values(), ids=ASSERTIONS)
def test_an_assertion_that_does_not_hold_fails(app: Onward, assertion: Callable[[Onward], object]) -> None:
    """An assertion that cannot fail is worse than none."""
    app.enqueue(welcome, Welcome("1"))
    with pytest.raises(AssertionError, match="enqueued"):
        assertion(app)


def test_a_failure_lists_what_does_wait(app: Onward) -> None:
    """The usual cause is a payload that differs in one field; it should be seen at once."""
    job_id = app.enqueue(welcome, Welcome("1"), key="one").id
    with pytest.raises(AssertionError) as failed:
        assert_enqueued(app, welcome, Welcome("2"), priority=4)
    for part in ("Welcome(user_id='2')", "priority=4", job_id, '{"user_id":"1"}', "key='one'"):
        assert part in str(failed.value)


def test_refute_enqueued_passes_where_nothing_like_it_waits(app: Onward) -> None:
    """A job that ran, was cancelled or is of another kind does not count."""
    app.enqueue(tidy)
    cancelled = app.enqueue(welcome, Welcome("1"))
    app.cancel(cancelled.id)
    refute_enqueued(app, welcome)
    refute_enqueued(app, tidy, priority=9)
    drain(app)
    refute_enqueued(app, tidy)


def test_a_job_under_an_old_name_belongs_to_its_definition(app: Onward) -> None:
    """An alias is the same job."""
    old = define_job("hello", send)
    Onward(store=app.store, jobs=[old]).enqueue(old, Welcome("1"))
    assert assert_enqueued(app, welcome, Welcome("1")).type == "hello"


def test_a_delay_is_read_as_everywhere_else(app: Onward) -> None:
    """Text that never equals a duration would make every negated assertion pass."""
    app.enqueue(welcome, Welcome("1"), delay="3d")
    assert_enqueued(app, welcome, delay="3d")
    assert_enqueued(app, welcome, delay=259_200)
    with pytest.raises(AssertionError, match="should not be enqueued"):
        refute_enqueued(app, welcome, Welcome("1"), delay="72h")


@pytest.mark.parametrize("assertion", [assert_enqueued, refute_enqueued])
def test_what_could_match_no_job_is_refused(app: Onward, assertion: Callable[..., object]) -> None:
    """An assertion about a misspelt field, or a payload of another type, says nothing."""
    with pytest.raises(InvalidPayload):
        assertion(app, welcome, "1")
    with pytest.raises(InvalidDefinition, match="no field 'que'"):
        assertion(app, welcome, que="mail")
