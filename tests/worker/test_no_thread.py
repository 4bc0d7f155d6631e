"""Where no thread can be started, nothing hangs and nothing is held."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from onward import Onward, define_job
from onward.clock import FakeClock
from onward.drivers.memory import MemoryStore
from onward.events import Event
from onward.registry import Registry
from onward.status import Status
from onward.turn import Demand
from onward.worker.event_loop import EventLoop
from onward.worker.executor import Executor
from onward.worker.isolation import Isolation
from onward.worker.slots import Slots
from onward.worker.threads import Threads

START = threading.Thread.start


def refuse(thread: threading.Thread) -> NoReturn:
    raise RuntimeError("can't start new thread")


def test_an_event_loop_whose_thread_could_not_be_started_is_started_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every later async job waits for ever, and its lease is renewed."""
    loop, has_run = EventLoop(), threading.Event()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        loop.call(has_run.set)
    monkeypatch.setattr(threading.Thread, "start", START)
    loop.call(has_run.set)
    assert has_run.wait(5)
    loop.close()


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), RuntimeError("can't start new thread"), MemoryError()])
def test_an_async_job_for_which_no_event_loop_can_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A worker that has no descriptor left when its first async job comes must not hold that job until it is stopped."""

    async def work(payload: int) -> None: ...

    def refuse_loop() -> NoReturn:
        raise error

    definition = define_job("work", work)
    heard: list[Event] = []
    is_heard = threading.Event()

    def hear(event: Event) -> None:
        heard.append(event)
        if event.event == "snoozed":
            is_heard.set()

    app = Onward("memory://", jobs=[definition])
    app.events.subscribe(hear)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse_loop)
    job_id = app.enqueue(definition, 1).id
    worker = app.worker()
    worker.start()
    try:
        assert is_heard.wait(20), heard
        job = app.get(job_id)
        assert (job.status, job.attempts, job.snoozes) == (Status.QUEUED, 0, 1)
    finally:
        worker.stop()


def test_a_run_that_no_thread_takes_is_not_left_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    has_run = threading.Event()
    threads = Threads(lambda run: (done.append(run), has_run.set()))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        threads.put("first")  # type: ignore[arg-type]
    monkeypatch.setattr(threading.Thread, "start", START)
    threads.put("second")  # type: ignore[arg-type]
    assert has_run.wait(5)
    assert done == ["second"]
    threads.close()


def test_the_file_is_not_locked_while_a_thread_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start may never return where memory has run out."""
    app = Onward(f"sqlite:///{tmp_path / 'jobs.db'}")
    app.store.open()
    is_starting, may_go_on = threading.Event(), threading.Event()

    def hang(thread: threading.Thread) -> None:
        is_starting.set()
        may_go_on.wait(10)
        START(thread)

    def write() -> None:
        with app.store.transaction(limit=timedelta(seconds=5)):
            pass

    writer = threading.Thread(target=write)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: hang(thread) if threading.current_thread() is writer else START(thread))
    START(writer)
    try:
        if not is_starting.wait(5):
            pytest.skip("no thread is started")
        other = sqlite3.connect(tmp_path / "jobs.db", timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.close()
    finally:
        may_go_on.set()
        writer.join()
        app.close()


def test_an_isolated_async_job_for_which_no_event_loop_can_be_made_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has done nothing wrong, so it is no dead letter."""

    async def handler(payload: int) -> None: ...

    work = define_job("work", handler, isolated=True)
    store = MemoryStore(clock=FakeClock())
    store.enqueue([work.new_job(1)])
    (claim,) = store.turn(demand=Demand(lease_owner="host:1:one", slots=1, types={"work": timedelta(seconds=60)})).claims
    executor = Executor(Registry([work]), clock=store.clock)
    is_rung = threading.Event()
    slots = Slots(1, executor, is_rung.set, Isolation(store, store.clock))

    def refuse_loop() -> NoReturn:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", refuse_loop)
    run = executor.prepare(claim)
    assert run is not None
    slots.start([run])
    assert is_rung.wait(20)
    ((_, settlement),) = slots.take_ended()
    assert settlement.outcome.name == "snoozed"
    slots.close()


def test_thousands_of_runs_that_cannot_be_started_are_all_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes the slot of the one before; none may stay there because of how many they are."""
    many = 3000
    work = define_job("work", lambda payload: None, payload=int)
    store = MemoryStore(clock=FakeClock())
    store.enqueue([work.new_job(number) for number in range(many)])
    claims = store.turn(demand=Demand(lease_owner="host:1:one", slots=many, types={"work": timedelta(seconds=60)})).claims
    executor = Executor(Registry([work]), clock=store.clock)
    slots = Slots(1, executor, lambda: None, Isolation(store, store.clock))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    slots.start([run for claim in claims if (run := executor.prepare(claim)) is not None])
    ended = slots.take_ended()
    assert len(ended) == many
    assert {settlement.outcome.name for _, settlement in ended} == {"snoozed"}
    assert slots.is_empty
    assert not slots.held()
