"""Waiting for the end of a job: when it is looked at, and what ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from onward import Onward, define_job
from onward.errors import InvalidTime, JobNotEnded, JobNotFound, StoreUnavailable
from onward.handle import LONGEST_PAUSE, Waiting, wait_until_ended
from onward.jobs import Job
from onward.status import Status
from onward.testing.factories import make_job

greet = define_job("greet", lambda: "hello")
ENDS = [Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED]


class Time:
    """A monotonic clock that stands still until somebody pauses."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def looks(seconds: float, timeout: timedelta | None = None, status: Status = Status.COMPLETED) -> tuple[list[float], Job]:
    """After how many seconds a job is looked at that ends after so many, and what the waiting gives."""
    clock = Time()
    steps = wait_until_ended(timeout, clock)
    at: list[float] = []
    clock.now += next(steps)
    try:
        while True:
            at.append(clock.now - 100)
            has_ended = at[-1] >= seconds
            clock.now += steps.send(make_job(status=status if has_ended else Status.IN_PROGRESS))
    except StopIteration as end:
        return at, end.value


@pytest.mark.parametrize("status", ENDS)
def test_an_end_is_an_end_however_it_came(status: Status) -> None:
    at, job = looks(0, status=status)
    assert (at, job.status) == ([0.0], status)


@pytest.mark.parametrize("status", [one for one in Status if one not in ENDS])
def test_what_goes_on_is_waited_for(status: Status) -> None:
    steps = wait_until_ended(None, Time())
    next(steps)
    assert steps.send(make_job(status=status)) > 0


@pytest.mark.parametrize("seconds", [0.05, 0.5, 3, 60, 3600])
def test_an_end_is_noticed_soon_for_the_time_that_it_took(seconds: float) -> None:
    """At most an eighth of it late, or a hundredth of a second, and never more than a second."""
    at, _ = looks(seconds)
    assert at[-1] <= seconds + min(max(seconds / 8, 0.011), LONGEST_PAUSE)


def test_a_long_wait_looks_once_a_second() -> None:
    at, _ = looks(3600)
    assert len([one for one in at if one > 8]) == pytest.approx(3592, abs=2)
    assert len([one for one in at if one <= 8]) < 50


def _go_on(steps: Waiting, job: Job, clock: Time) -> None:
    while True:
        clock.now += steps.send(job)


@pytest.mark.parametrize("timeout", [0.0, 0.004, 1.0, 30.0])
def test_a_time_that_is_over_is_told_with_the_job(timeout: float) -> None:
    """The last look is when it is over, not before."""
    clock = Time()
    steps = wait_until_ended(timedelta(seconds=timeout), clock)
    job = make_job(status=Status.RETRYING)
    clock.now += next(steps)
    with pytest.raises(JobNotEnded, match="which is still retrying") as told:
        _go_on(steps, job, clock)
    assert clock.now - 100 == pytest.approx(timeout)
    assert told.value.job is job
    assert isinstance(told.value, TimeoutError)


def test_a_store_that_is_away_for_a_while_is_looked_at_again() -> None:
    """A restart of the server is no end of the job."""
    clock = Time()
    steps = wait_until_ended(timedelta(seconds=30), clock)
    clock.now += next(steps)
    for _ in range(3):
        clock.now += steps.throw(StoreUnavailable("it restarts"))
    done = make_job(status=Status.COMPLETED)
    with pytest.raises(StopIteration) as ended:
        steps.send(done)
    assert ended.value.value is done


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_store_that_stays_away_is_told_when_the_time_is_over(was_seen: bool) -> None:
    clock = Time()
    steps = wait_until_ended(timedelta(seconds=1), clock)
    clock.now += next(steps)
    if was_seen:
        clock.now += steps.send(make_job())
    with pytest.raises(StoreUnavailable, match="it is gone"):
        _fail(steps, clock)
    assert clock.now - 100 == pytest.approx(1)


def _fail(steps: Waiting, clock: Time) -> None:
    while True:
        clock.now += steps.throw(StoreUnavailable("it is gone"))


def test_a_store_that_will_never_be_there_ends_the_wait_at_once() -> None:
    """A refused log-in does not get better by waiting."""
    steps = wait_until_ended(None, Time())
    next(steps)
    error = StoreUnavailable("the log-in was refused")
    error.is_lasting = True
    with pytest.raises(StoreUnavailable, match="refused"):
        steps.throw(error)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Onward]:
    kind = request.param
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    if kind == "postgres":
        url = request.getfixturevalue("postgres_database")
    with Onward(url, jobs=[greet], migrate=True) as app:
        yield app


def test_a_result_comes_back(app: Onward) -> None:
    handle = app.enqueue(greet)
    worker = app.worker(concurrency=1)
    worker.start()
    job = handle.wait("30s")
    worker.stop()
    assert (job.status, job.result) == (Status.COMPLETED, '"hello"')
    assert handle.wait(timedelta(0)) == job


def test_a_result_comes_back_to_a_loop_that_goes_on_meanwhile(app: Onward) -> None:
    async def main() -> Job:
        handle = await app.aenqueue(greet)

        async def work_after_a_while() -> None:
            """Nobody works before the loop has gone round a hundred times beside the one who waits."""
            for _ in range(100):
                await asyncio.sleep(0)
            await asyncio.to_thread(app.worker(drain=True).run)

        async with asyncio.timeout(30):
            working = asyncio.create_task(work_after_a_while())
            job = await handle
            await working
        return job

    assert asyncio.run(main()).result == '"hello"'


def test_a_wait_that_is_cancelled_leaves_the_job_alone(app: Onward) -> None:
    async def main() -> str:
        handle = await app.aenqueue(greet)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await handle
        return handle.id

    assert app.get(asyncio.run(main())).status is Status.QUEUED


def test_nobody_works_and_the_time_is_over(app: Onward) -> None:
    handle = app.enqueue(greet)
    began = time.monotonic()
    with pytest.raises(JobNotEnded, match=f"waited 50ms for job {handle.id}, which is still queued"):
        handle.wait("50ms")
    assert time.monotonic() - began >= 0.05


def test_a_job_that_goes_away_meanwhile_is_not_waited_for(app: Onward) -> None:
    handle = app.enqueue(greet)
    app.delete(handle)
    with pytest.raises(JobNotFound):
        handle.wait()


def test_a_time_that_cannot_be_read_is_refused_before_anything(app: Onward) -> None:
    with pytest.raises(InvalidTime, match="'soon'"):
        app.enqueue(greet).wait("soon")
