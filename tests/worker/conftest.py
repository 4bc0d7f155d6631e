"""A memory store, a clock that stands still, and workers whose duties are called one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from onward.clock import FakeClock
from onward.context import JobContext
from onward.definition import JobDefinition
from onward.drivers.memory import MemoryStore
from onward.events import Event, Events
from onward.registry import Registry
from onward.worker.worker import Worker

PATIENCE = 20.0
"""Seconds after which something that should have happened at once is a failure."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def events() -> list[Event]:
    """What the workers of this test reported."""
    return []


@pytest.fixture
def make_worker(store: MemoryStore, events: list[Event]) -> Iterator[Callable[..., Worker]]:
    """``make_worker(definition, ..., option=...)``; each is stopped at the end."""
    made: list[Worker] = []

    def make(*definitions: JobDefinition[Any], **options: Any) -> Worker:
        chosen = {"store": store, "events": Events([events.append]), "chance": Random(1), "grace": "1s", **options}
        made.append(Worker(definitions=Registry(definitions), **chosen))
        return made[-1]

    yield make
    for worker in made:
        if not worker.finished.is_set() and not worker.is_stopping:
            worker.stop(grace=0)
        worker.slots.close()


def work_off(worker: Worker) -> None:
    """Turn by turn, without a thread of the worker's own, until nothing is due, running or unsettled."""
    until = time.monotonic() + PATIENCE
    worker.producer.tick()
    while not worker.slots.is_empty or worker.producer.has_unsettled:
        assert time.monotonic() < until, "the jobs did not end"
        worker.producer.rest(0.1)
        worker.producer.tick()


class Gate:
    """A handler that says when it begins and ends when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()
        self.contexts: list[JobContext] = []
        self.starts = 0

    def __call__(self, payload: int, ctx: JobContext) -> str:
        self.starts += 1
        self.contexts.append(ctx)
        self.begun.release()
        assert self.open.wait(PATIENCE)
        return "through"

    def wait(self) -> None:
        """Until one more run has begun."""
        assert self.begun.acquire(timeout=PATIENCE)
