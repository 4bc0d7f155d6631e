"""``Onward``: what it refuses, and the calls that only translate."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from onward.app import Onward
from onward.clock import SystemClock
from onward.definition import define_job
from onward.drivers import connect
from onward.errors import InvalidDefinition, InvalidSetting, JobNotFound, OnwardError, TransactionOpen, UnknownJobType
from onward.handle import JobHandle
from onward.jobs import Job
from onward.options import WorkerOptions
from onward.testing import FakeClock
from onward.worker.worker import Worker

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass
class Welcome:
    user_id: str


def send(payload: Welcome) -> None: ...


welcome = define_job("welcome", send)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def app(clock: FakeClock) -> Onward:
    return Onward("memory://", jobs=[welcome], clock=clock)


def on_loop(call: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return await call()

    return asyncio.run(run())


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"url": "memory://"}, {"strict": True}, {"clock": FakeClock()}], ids="-".join)
def test_a_ready_store_takes_no_url_clock_or_strictness(option: dict[str, Any]) -> None:
    """They were decided when it was made; ignoring them would leave a strict application lax."""
    store = connect("memory://", clock=SystemClock())
    with pytest.raises(InvalidDefinition, match="store= that was made already"):
        Onward(store=store, **option)
    assert Onward(store=store).store is store


def test_a_misspelt_option_of_an_enqueue_is_refused(app: Onward) -> None:
    """With the name of the option, not of an inner method."""
    for call in (app.enqueue, lambda *args, **options: app.enqueue_in(*args, "5m", **options)):
        with pytest.raises(InvalidDefinition, match="no option 'priorty' at an enqueue: did you mean 'priority'"):
            call(welcome, Welcome("1"), priorty=3)  # type: ignore[operator]
    assert app.find() == []


def test_an_unknown_status_is_refused_with_those_there_are(app: Onward) -> None:
    """Other queues say pending; an empty answer would look like no work."""
    with pytest.raises(
        InvalidDefinition, match="no status 'pending'; known are queued, in_progress, retrying, completed, dead_letter, cancelled"
    ):
        app.find(status="pending")
    with pytest.raises(InvalidDefinition, match="did you mean 'in_progress'"):
        app.find(status="in-progress")


def test_many_definitions_are_not_many_jobs(app: Onward) -> None:
    """The easiest mistake in the call."""
    wrong: Any
    for wrong in (welcome, Welcome("1"), (welcome, Welcome("1"))):
        with pytest.raises(InvalidDefinition, match=r"enqueue_many takes what definition.new_job\(payload\) made"):
            app.enqueue_many([wrong])


def test_a_job_of_another_application_is_refused(app: Onward) -> None:
    """No worker of this one would know it."""
    other = define_job("other", send)
    with pytest.raises(UnknownJobType, match="add it to Onward"):
        app.enqueue(other, Welcome("1"))
    with pytest.raises(UnknownJobType, match="what define_job"):
        app.enqueue(send, Welcome("1"))  # type: ignore[call-overload]


@pytest.mark.parametrize(("option", "says"), [("concurency", "did you mean 'concurrency'"), ("zzz", "known are queues, concurrency")])
def test_an_unknown_option_of_a_worker_is_refused(app: Onward, option: str, says: str) -> None:
    """In one line, as everywhere."""
    options: Any = {option: 3}
    with pytest.raises(InvalidDefinition, match=says):
        app.worker(**options)


def test_the_options_of_a_worker_that_a_type_checker_knows_are_those_it_takes() -> None:
    """The list is a file of its own, so that the application need not import the worker."""
    given_by_the_application = {"events", "services", "periodic", "queue_limits", "retention", "reconcilers"}
    given_by_the_application |= {"alert_rules", "jobs_for_alerts"}
    keywords = {name for name, one in inspect.signature(Worker).parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert set(WorkerOptions.__annotations__) == keywords - given_by_the_application


# -- now, later, at a time -------------------------------------------------------------------------------------------


def stored(app: Onward, handle: JobHandle) -> Job:
    return app.get(handle.id)


def test_a_job_can_be_asked_for_later_or_at_a_time_by_name(app: Onward, clock: FakeClock) -> None:
    """The same call as ``delay=`` and ``at=``, with the same options, in both colours."""
    later = [
        app.enqueue_in(welcome, Welcome("1"), "3d", priority=7),
        on_loop(lambda: app.aenqueue_in(welcome, Welcome("1"), "3d", priority=7)),
    ]
    at = [
        app.enqueue_at(welcome, Welcome("1"), NOON, priority=7),
        on_loop(lambda: app.aenqueue_at(welcome, Welcome("1"), NOON, priority=7)),
    ]
    assert [stored(app, one).scheduled_at for one in later] == [clock.now() + timedelta(days=3)] * 2
    assert [stored(app, one).scheduled_at for one in at] == [NOON] * 2
    assert {stored(app, one).priority for one in later + at} == {7}
    app.close()


def test_a_job_for_later_joins_the_caller_s_transaction(app: Onward) -> None:
    """It is not there when that rolls back."""

    def ask(connection: Any) -> None:
        app.enqueue_in(welcome, Welcome("1"), "3d", within=connection)
        app.enqueue_at(welcome, Welcome("1"), NOON, within=connection)

    with suppress(ZeroDivisionError), app.transaction() as connection:
        ask(connection)
        raise ZeroDivisionError
    assert app.find() == []
    with app.transaction() as connection:
        ask(connection)
    assert len(app.find()) == 2


def test_a_delay_and_a_time_together_are_refused(app: Onward) -> None:
    """One of them would be ignored."""
    with pytest.raises(OnwardError, match="not both"):
        app.enqueue_in(welcome, Welcome("1"), "3d", at=NOON)


# -- on an event loop ------------------------------------------------------------------------------------------------


def test_an_enqueue_while_another_thread_imports_asyncio(app: Onward, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is listed before it holds anything."""
    monkeypatch.setitem(sys.modules, "asyncio", ModuleType("asyncio"))
    assert app.enqueue(welcome, Welcome("1")).is_new


@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many"])
def test_a_call_that_blocks_the_event_loop_is_said_once(app: Onward, caplog: pytest.LogCaptureFixture, verb: str) -> None:
    """Everything else on the loop stands still meanwhile; the line names what to call instead."""

    def call() -> None:
        app.enqueue(welcome, Welcome("1")) if verb == "enqueue" else app.enqueue_many([welcome.new_job(Welcome("1"))])

    async def run() -> None:
        call()
        call()

    with caplog.at_level(logging.WARNING, logger="onward"):
        call()
        assert caplog.messages == []
        asyncio.run(run())
    assert caplog.messages == [f"{verb}() blocks the running event loop until the commit: use 'await app.a{verb}(...)' there"]


def test_an_awaited_enqueue_inside_the_store_s_own_transaction_is_refused_at_once(tmp_path: Path) -> None:
    """It would wait for the lock that its own thread holds, until the time-out."""
    app = Onward(f"sqlite:///{tmp_path}/app.db?timeout=1h", jobs=[welcome])

    async def run() -> None:
        with app.transaction() as connection:
            for call in (lambda: app.aenqueue(welcome, Welcome("1")), lambda: app.aenqueue_many([welcome.new_job(Welcome("1"))])):
                with pytest.raises(TransactionOpen, match="within=connection"):
                    await call()
            app.enqueue(welcome, Welcome("2"), within=connection)
        await app.aenqueue(welcome, Welcome("3"))

    asyncio.run(run())
    assert [job.payload for job in app.find()] == ['{"user_id":"3"}', '{"user_id":"2"}']
    app.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"url": Path("a.db")}, "a URL as text, such as 'sqlite:///a.db'"),
        ({"url": 3}, "a URL as text, such as 'sqlite:///app.db', not an int"),
        ({"jobs": welcome}, r"jobs=\[welcome\], not a JobDefinition"),
        ({"subscribers": print}, r"subscribers=\[print\]"),
        ({"subscribers": [3]}, "functions that are called with each Event"),
        ({"reconcile": 3}, r"reconcile=\[files\]"),
        ({"retention": "7d"}, r'Retention\(completed="7d"\), not \'7d\''),
    ],
    ids=str,
)
def test_an_argument_of_another_kind_is_refused_with_an_example(arguments: dict[str, Any], says: str) -> None:
    """An AttributeError from inside of the library sends its reader into the wrong code."""
    with pytest.raises(InvalidDefinition, match=says):
        Onward(**{"url": "memory://", **arguments})


def test_a_url_with_one_slash_says_how_it_is_written() -> None:
    """Read loosely, it would lead to another file than its writer means."""
    with pytest.raises(InvalidSetting, match=r"sqlite:////shop\.db"):
        Onward("sqlite:/shop.db")


@pytest.mark.parametrize(("asked", "says"), [({"before": "x"}, "before="), ({"limit": 0}, "limit="), ({"limit": -1}, "limit=")])
def test_a_search_that_cannot_be_meant_is_refused(app: Onward, asked: dict[str, Any], says: str) -> None:
    """An empty list would look like an answer."""
    with pytest.raises(InvalidDefinition, match=says):
        app.find(**asked)


def test_the_history_of_no_job_is_an_error(app: Onward) -> None:
    """An empty list would say that it was never tried."""
    with pytest.raises(JobNotFound, match="nope"):
        app.history("nope")
    assert app.history(app.enqueue(welcome, Welcome("1")).id) == []


@pytest.mark.parametrize("queues", ["mail", ["a b"]])
def test_a_worker_refuses_queues_that_no_job_can_be_in(app: Onward, queues: Any) -> None:
    """It would wait for ever and look healthy; text would be served letter by letter."""
    with pytest.raises(InvalidDefinition, match="queue"):
        app.worker(queues=queues)
