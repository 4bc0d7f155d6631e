"""Who subscribes to events is told of what is stored already, and can change nothing of it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from onward import Cancel, Event, InvalidDefinition, JobContext, Onward, PermanentJobError, RetryPolicy, Snooze, Status, define_job
from onward.clock import FakeClock
from onward.events import EventName
from onward.outcome import MOST_LOSSES
from onward.testing import drain
from onward.turn import Demand, Settlement
from tests.worker.conftest import PATIENCE

AGAIN = RetryPolicy(2, base="1s", jitter=0)
ONCE = RetryPolicy(1)


def fine(payload: int) -> int:
    return payload


def hopeless(payload: int) -> None:
    raise PermanentJobError("hopeless")


def failing(payload: int) -> None:
    raise ValueError("not today")


def cancelling(payload: int) -> Cancel:
    return Cancel("not needed")


def snoozing(payload: int, ctx: JobContext) -> Snooze | None:
    return Snooze("1s") if ctx.job.snoozes == 0 else None


async def late(payload: int) -> None:
    await asyncio.sleep(3600)


JOBS = {
    one.name: one
    for one in (
        define_job("fine", fine),
        define_job("hopeless", hopeless),
        define_job("failing", failing, retry=AGAIN),
        define_job("cancelling", cancelling),
        define_job("snoozing", snoozing),
        define_job("late", late, timeout="10ms", retry=ONCE),
        define_job("expired", fine, expires="1s"),
    )
}


class Told:
    """Notes each event, and what the store had to say of its job by then."""

    def __init__(self) -> None:
        self.app: Onward | None = None
        self.heard: list[tuple[str, str, Status]] = []

    def __call__(self, event: Event) -> None:
        assert self.app is not None
        self.heard.append((event.event, event.job_type, self.app.get(event.job_id).status))

    def of(self, name: str) -> list[str]:
        return [type_ for event, type_, _ in self.heard if event == name]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Callable[..., Onward]]:
    """``make(on=...)``: an application with all these jobs."""
    made: list[Onward] = []

    def make(**options: Any) -> Onward:
        url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else "memory://"
        made.append(Onward(url, jobs=JOBS.values(), clock=clock, **options))
        return made[-1]

    yield make
    for app in made:
        app.close()


def test_each_event_comes_to_who_asked_for_it_when_the_store_has_it(make: Callable[..., Onward]) -> None:
    """Enqueued, begun, completed, failed, dead-lettered, by their names; one function or several."""
    told, also = Told(), list[Event]()
    app = told.app = make(on={"completed": told, "queued": [told, also.append], "failed": told, "dead_lettered": told, "claimed": told})
    for name in ("fine", "failing"):
        app.enqueue(JOBS[name], 1)
    drain(app, ahead="1h")
    assert [event.event for event in also] == ["queued"] * 2
    assert [heard for heard in told.heard if heard[1] == "fine"] == [
        ("queued", "fine", Status.QUEUED),
        ("claimed", "fine", Status.IN_PROGRESS),
        ("completed", "fine", Status.COMPLETED),
    ]
    assert [heard for heard in told.heard if heard[1] == "failing"] == [
        ("queued", "failing", Status.QUEUED),
        ("claimed", "failing", Status.IN_PROGRESS),
        ("failed", "failing", Status.RETRYING),
        ("claimed", "failing", Status.IN_PROGRESS),
        ("dead_lettered", "failing", Status.DEAD_LETTER),
    ]


def test_a_dead_letter_is_told_of_exactly_where_there_is_one(make: Callable[..., Onward], clock: FakeClock) -> None:
    """Permanent, invalid, used up, over its time limit; and nothing that ended otherwise, whoever ended it."""
    told = Told()
    app = told.app = make(on={"dead_lettered": told})
    for name in JOBS:
        app.enqueue(JOBS[name], 1, **({"delay": 0} if name == "expired" else {}))
    handle = app.enqueue(JOBS["fine"], 2)
    with app.store.transaction() as connection:
        if app.store.capabilities.name == "sqlite":
            connection.execute("UPDATE onward_jobs SET payload = '\"no number\"' WHERE id = ?", [handle.id])
    clock.advance(2)
    app.cancel(app.enqueue(JOBS["failing"], 3))
    drain(app, ahead="1h")
    dead = app.find(status="dead_letter")
    assert sorted(told.of("dead_lettered")) == sorted(job.type for job in dead)
    expected = ["failing", "hopeless", "late"] + (["fine"] if app.store.capabilities.name == "sqlite" else [])
    assert sorted(told.of("dead_lettered")) == sorted(expected)
    assert {status for _, _, status in told.heard} == {Status.DEAD_LETTER}


def test_a_job_that_was_asked_to_stop_and_fails_is_no_dead_letter(make: Callable[..., Onward]) -> None:
    """The store decides that, so it is told as what was stored."""
    told = Told()
    app = told.app = make(on=dict.fromkeys(get_args(EventName), told))
    handle = app.enqueue(JOBS["hopeless"], 1)
    claim = app.store.turn(demand=Demand(lease_owner="a:1:b", slots=1, types=app.definitions.leases())).claims[0]
    app.cancel(handle)
    from onward.outcome import DeadLettered
    from onward.worker.reports import Reports

    turn = app.store.turn([Settlement(claim=claim, outcome=DeadLettered("hopeless"))])
    Reports(app.events, "a:1:b", app.store).settled((one, None) for one in turn.settled)
    assert (told.of("cancelled"), told.of("dead_lettered")) == (["hopeless"], [])


def test_what_a_sweep_dead_letters_is_told_by_whoever_sweeps(make: Callable[..., Onward], clock: FakeClock) -> None:
    """A job that has cost every worker its life is a dead letter as any other."""
    told = Told()
    app = told.app = make(on={"dead_lettered": told, "reclaimed": told})
    app.enqueue(JOBS["failing"], 1)
    for _ in range(MOST_LOSSES + 2):
        app.store.turn(demand=Demand(lease_owner="a:1:b", slots=1, types=app.definitions.leases()))
        clock.advance(61)
        worker = app.worker()
        worker.sweeper.tick()
        worker.slots.close()
    assert told.heard[-1] == ("dead_lettered", "failing", Status.DEAD_LETTER)
    assert (told.of("dead_lettered"), told.of("reclaimed")) == (["failing"], ["failing"] * MOST_LOSSES)


@pytest.mark.parametrize("error", [RuntimeError("no mail"), SystemExit(3), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_what_a_subscriber_raises_is_logged_and_changes_nothing(
    make: Callable[..., Onward], error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even what would end a program: the turn has other jobs."""

    def fail(event: Event) -> None:
        raise error

    heard: list[Event] = []
    app = make(on={name: [fail, heard.append] for name in get_args(EventName)})
    for name in ("fine", "hopeless", "failing"):
        app.enqueue(JOBS[name], 1)
    with caplog.at_level(logging.ERROR, logger="onward"):
        app.worker(drain=True).run()
    assert {job.type: job.status for job in app.find()} == {
        "fine": Status.COMPLETED,
        "hopeless": Status.DEAD_LETTER,
        "failing": Status.RETRYING,
    }
    assert [event.event for event in heard if event.job_type == "hopeless"] == ["queued", "claimed", "dead_lettered"]
    assert caplog.text.count("a subscriber failed on") == len(heard)
    assert "a subscriber failed on dead_lettered of job" in caplog.text


def test_while_a_subscriber_is_slow_leases_are_renewed_and_outcomes_stand(make: Callable[..., Onward]) -> None:
    """It holds up the next turn of its worker, and nothing else."""
    is_called, may_go_on = threading.Event(), threading.Event()

    def slow(event: Event) -> None:
        is_called.set()
        assert may_go_on.wait(PATIENCE)

    running = threading.Event()

    def long(payload: int) -> None:
        running.set()
        assert may_go_on.wait(PATIENCE)

    app = make(on={"completed": slow})
    long_one = define_job("long", long)
    app.add(long_one)
    app.enqueue(long_one, 1)
    worker = app.worker(concurrency=2)
    worker.producer.tick()
    assert running.wait(PATIENCE)
    quick = app.enqueue(JOBS["fine"], 1)
    worker.producer.tick()

    def settle() -> None:
        while not is_called.is_set():
            worker.producer.rest(0.1)
            worker.producer.tick()

    turn = threading.Thread(target=settle)
    turn.start()
    assert is_called.wait(PATIENCE)
    assert app.get(quick).status is Status.COMPLETED
    (held,) = [job for job in app.find() if job.type == "long"]
    app.store.clock.advance(30)  # type: ignore[attr-defined]
    worker.heartbeat.tick()
    assert app.get(held.id).lease_until == app.store.clock.now() + timedelta(seconds=60)
    may_go_on.set()
    turn.join(PATIENCE)
    worker.stop(grace=PATIENCE)


async def tell(event: Event) -> None: ...


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"on": {"dead_letter": print}}, "there is no event 'dead_letter': did you mean 'dead_lettered'"),
        ({"on": {7: print}}, "there is no event 7"),
        ({"on": print}, "on= takes a function for the name of an event"),
        ({"on": {"failed": "print"}}, r"on\['failed'\] takes a function, or a list of them, not a str"),
        ({"on": {"failed": [3]}}, r"on\['failed'\] takes functions"),
        ({"on": {"failed": tell}}, r"on\['failed'\] takes functions that are called from a thread of the worker"),
        ({"subscribers": [tell]}, "subscribers= takes functions that are called from a thread of the worker"),
    ],
    ids=["misspelt", "no text", "no mapping", "text", "a list of numbers", "an async function", "an async subscriber"],
)
def test_what_could_never_be_told_is_refused_where_it_is_declared(given: dict[str, Any], says: str) -> None:
    """A name that is no event, and a function of which nothing would run."""
    with pytest.raises(InvalidDefinition, match=says):
        Onward("memory://", **given)


# -- what belongs together -----------------------------------------------------------------------------------------------


def test_one_correlation_id_is_in_everything_that_a_job_has_led_to(clock: FakeClock, capsys: pytest.CaptureFixture[str]) -> None:
    """From the enqueue to children, their children, every event, every line, and the lines of the handlers' own loggers."""
    from onward.telemetry.log import LifecycleLog

    logged: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = logged.append  # type: ignore[method-assign]
    logging.getLogger("onward.job").addHandler(handler)

    def order(payload: int, ctx: JobContext) -> None:
        ctx.logger.warning("try %d", ctx.attempt, extra={"left": payload})
        if payload:
            ctx.enqueue(ordering, payload - 1, metadata={"correlation_id": "not mine to choose", "tag": payload})
        if ctx.attempt == 1:
            raise ValueError("not yet")

    ordering = define_job("order", order, retry=AGAIN)
    heard: list[Event] = []
    app = Onward("memory://", jobs=[ordering], clock=clock, subscribers=[heard.append, LifecycleLog(sys.stdout)])
    try:
        app.enqueue(ordering, 2, metadata={"correlation_id": "order-7"})
        alone = app.enqueue(ordering, 0)
        drain(app, ahead="1h")
    finally:
        logging.getLogger("onward.job").removeHandler(handler)
    jobs = {job.id: job for job in app.find()}
    assert len(jobs) == 4
    shared = {job.id: "order-7" for job in jobs.values()} | {alone.id: alone.id}
    assert {event.job_id: event.correlation_id for event in heard} == shared
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["job_id"], line["correlation_id"]) for line in lines] == [(event.job_id, event.correlation_id) for event in heard]
    records = {(record.__dict__["job_id"], record.__dict__["correlation_id"]) for record in logged}
    assert records == set(shared.items())
    assert {record.__dict__["left"] for record in logged} == {0, 1, 2}
    parents = {json.loads(job.metadata).get("parent_id") for job in jobs.values()}
    assert len(parents) == 3
    assert {json.loads(job.metadata).get("tag") for job in jobs.values()} == {None, 2, 1}
    app.close()


def test_the_children_of_a_transaction_and_of_the_clock_have_one_too(clock: FakeClock) -> None:
    """Whichever way a job is asked for."""

    def parent(payload: int, ctx: JobContext) -> None:
        with ctx.transaction():
            ctx.enqueue(child, 1)

    child, parents = define_job("child", fine), define_job("parent", parent)
    heard: list[Event] = []
    app = Onward("memory://", jobs=[child, parents], clock=clock, on={"queued": heard.append, "completed": heard.append})
    app.enqueue_many([parents.new_job(1, metadata={"correlation_id": "order-8"})])
    drain(app)
    assert [(event.event, event.job_type, event.correlation_id) for event in heard] == [
        ("queued", "parent", "order-8"),
        ("completed", "parent", "order-8"),
        ("queued", "child", "order-8"),
        ("completed", "child", "order-8"),
    ]
    app.close()
