"""``drain`` runs what a worker would run, and says how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onward import Cancel, Event, JobContext, Limit, Onward, OnwardError, RetryPolicy, Snooze, Status, define_job
from onward.definition import JobDefinition
from onward.inspection import JobFilter
from onward.jobs import NewJob
from onward.testing import FakeClock, adrain, drain, make_new_job, scheduled_jobs


@dataclass
class Number:
    value: int


class Desk:
    """What the handlers work on."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.failures = 0


def note(payload: Number, ctx: JobContext) -> int:
    ctx.services.seen.append((type(payload), payload.value, ctx.attempt))
    if ctx.services.failures:
        ctx.services.failures -= 1
        raise ValueError("not yet")
    return payload.value * 2


async def note_async(payload: Number, ctx: JobContext) -> None:
    await asyncio.sleep(0)
    ctx.services.seen.append(payload.value)


def lead(payload: Number, ctx: JobContext) -> None:
    for value in range(payload.value):
        ctx.enqueue(noted, Number(value))


def repeat(payload: Number, ctx: JobContext) -> None:
    ctx.enqueue(repeated, payload)


def settle_within(payload: Number, ctx: JobContext) -> None:
    with ctx.transaction() as connection:
        ctx.services.seen.append(connection is not None)


noted = define_job("note", note, retry=RetryPolicy(max_attempts=3, backoff="fixed", base="10s", jitter=0))
noted_async = define_job("note-async", note_async)
leading = define_job("lead", lead)
repeated = define_job("repeat", repeat)
snoozing = define_job("snooze", lambda: Snooze("1h"))
cancelling = define_job("cancel", lambda: Cancel("no need"))
within = define_job("within", settle_within, history="all")
ALL: list[JobDefinition[Any]] = [noted, noted_async, leading, repeated, snoozing, cancelling, within]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path, desk: Desk, clock: FakeClock) -> Iterator[Onward]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}[request.param]
    with Onward(url, jobs=ALL, services=desk, clock=clock) as app:
        yield app


def test_a_due_job_runs_through_json_and_the_store(app: Onward, desk: Desk) -> None:
    """What an eager mode hides (a payload that does not survive JSON, a result that cannot be stored) shows here."""
    handle = app.enqueue(noted, Number(21))
    drained = drain(app)
    assert desk.seen == [(Number, 21, 1)]
    job = handle.refresh()
    assert (job.status, job.result, job.lease_owner) == (Status.COMPLETED, "42", None)
    assert (drained.counts, len(drained)) == ({"completed": 1}, 1)


def test_sync_and_async_handlers_both_run(app: Onward, desk: Desk) -> None:
    """A test should not care which of them a handler is."""
    app.enqueue(noted_async, Number(1))
    app.enqueue(noted, Number(2))
    assert drain(app).counts == {"completed": 2}
    assert desk.seen == [1, (Number, 2, 1)]


def test_what_a_job_enqueues_runs_too(app: Onward, desk: Desk) -> None:
    """A workflow is drained to its end."""
    app.enqueue(leading, Number(3))
    assert drain(app).counts == {"completed": 4}
    assert [value for _, value, _ in desk.seen] == [0, 1, 2]


def test_a_retry_waits_until_the_clock_is_moved(app: Onward, desk: Desk, clock: FakeClock) -> None:
    """The back-off is real; the test decides when it is over."""
    desk.failures = 1
    handle = app.enqueue(noted, Number(1))
    assert drain(app).counts == {"retried": 1}
    assert drain(app).counts == {}
    clock.advance(10)
    assert drain(app).counts == {"completed": 1}
    assert (handle.refresh().attempts, [attempt for *_, attempt in desk.seen]) == (2, [1, 2])


def test_ahead_moves_the_clock_from_one_due_job_to_the_next(app: Onward, desk: Desk, clock: FakeClock) -> None:
    """All tries of a hopeless job in one call; what lies further ahead stays, and so does the time not needed."""
    desk.failures = 9
    began = clock.now()
    handle = app.enqueue(noted, Number(1))
    app.enqueue(noted, Number(2), delay="2h")
    assert drain(app, ahead="1h").counts == {"retried": 2, "dead_lettered": 1}
    assert handle.refresh().status is Status.DEAD_LETTER
    assert (clock.now() - began).total_seconds() == 20
    assert len(scheduled_jobs(app)) == 1


def test_ahead_needs_a_clock_that_can_be_moved(tmp_path: Path) -> None:
    """The system's clock cannot be."""
    with Onward("memory://", jobs=ALL) as app:
        app.enqueue(snoozing, delay="1m")
        with pytest.raises(OnwardError, match="FakeClock"):
            drain(app, ahead="1h")


def test_every_ending_is_told(app: Onward) -> None:
    """The outcomes are there to be looked at, in the order in which the runs ended."""
    app.enqueue(snoozing)
    app.enqueue(cancelling)
    drained = drain(app)
    assert drained.counts == {"snoozed": 1, "cancelled": 1}
    assert [outcome.name for outcome in drained.outcomes] == ["snoozed", "cancelled"]


def test_a_payload_of_the_wrong_shape_is_dead_lettered(app: Onward, desk: Desk) -> None:
    """As in a worker: at once, and never retried."""
    bad: NewJob = make_new_job("note", {"value": "seven"})
    app.store.enqueue([bad])
    assert drain(app).counts == {"dead_lettered": 1}
    assert "value" in (app.get(bad.id).error or "")
    assert desk.seen == []


def test_a_transaction_completes_its_job_once(app: Onward, desk: Desk) -> None:
    """The handler's own commit is the completion; drain must not settle it a second time."""
    handle = app.enqueue(within, Number(1))
    assert drain(app).counts == {"completed": 1}
    assert (handle.refresh().status, desk.seen) == (Status.COMPLETED, [True])
    assert [attempt.outcome for attempt in app.history(handle.id)] == ["completed"]


def test_only_the_queues_asked_for_are_drained(app: Onward) -> None:
    """A test of one worker's share."""
    app.enqueue(noted, Number(1), queue="slow")
    app.enqueue(noted, Number(2))
    assert drain(app, queues=["slow"]).counts == {"completed": 1}
    assert app.store.count(JobFilter(statuses=(Status.QUEUED,))) == 1


def test_an_expired_job_is_reported_and_not_run(app: Onward, desk: Desk, clock: FakeClock) -> None:
    """Too late is neither completed nor failed."""
    heard: list[Event] = []
    handle = app.enqueue(noted, Number(1), delay="10s", expires="10s", queue="late")
    app.enqueue(noted, Number(2), delay="15s", expires="1h")
    clock.advance(30)
    app.events.subscribe(heard.append)
    drained = drain(app)
    assert drained.counts == {"completed": 1}
    assert drained.expired == [handle.id]
    told = next(event for event in heard if event.event == "cancelled")
    assert (told.job_id, told.job_type, told.queue, told.correlation_id) == (handle.id, noted.name, "late", handle.id)
    assert handle.refresh().status is Status.CANCELLED
    assert [value for _, value, _ in desk.seen] == [2]


def test_a_job_that_enqueues_itself_does_not_hang_the_test(app: Onward) -> None:
    """An endless test is the worst failure message."""
    app.enqueue(repeated, Number(1))
    with pytest.raises(AssertionError, match="repeat"):
        drain(app, at_most=5)


def test_subscribers_hear_what_a_worker_would_tell_them(app: Onward) -> None:
    """Events can be tested without a worker."""
    heard: list[Event] = []
    app.events.subscribe(heard.append)
    app.enqueue(noted, Number(1))
    drain(app)
    assert [event.event for event in heard] == ["queued", "claimed", "completed"]


def test_a_test_on_an_event_loop_awaits_adrain(app: Onward, desk: Desk) -> None:
    """Async handlers then run on the test's own loop, with what it opened there."""

    async def scenario() -> dict[str, int]:
        await app.aenqueue(noted_async, Number(1))
        await app.aenqueue(noted, Number(2))
        with pytest.raises(OnwardError, match="adrain"):
            drain(app)
        return (await adrain(app)).counts

    assert asyncio.run(scenario()) == {"completed": 2}
    assert desk.seen == [1, (Number, 2, 1)]


def test_limits_of_queues_hold_as_in_a_worker() -> None:
    app = Onward("memory://", clock=FakeClock(), limits={"mail": Limit(rate="1/m", burst=1)})
    mail = define_job("mail", lambda: None, queue="mail")
    app.add(mail)
    app.enqueue_many([mail.new_job(None) for _ in range(3)])
    assert drain(app).counts == {"completed": 1}
    assert drain(app, ahead="1m").counts == {"completed": 1}
    assert drain(app, ahead="1h").counts == {"completed": 1}
