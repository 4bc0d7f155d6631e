"""A queue is paused and resumed by somebody else than the worker, which looks by itself only once a minute."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import Onward, define_job

PATIENCE = 30.0
begun, may_end = threading.Event(), threading.Event()


def hold() -> None:
    begun.set()
    assert may_end.wait(PATIENCE)


holding = define_job("holding", hold, queue="mail")
quick = define_job("quick", lambda: "done", queue="mail")
other = define_job("other", lambda: "done", queue="other")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    database: str = request.getfixturevalue("postgres_database") if request.param == "postgres" else f"sqlite:///{tmp_path}/jobs.db"
    return database


@pytest.fixture
def app(url: str) -> Iterator[Onward]:
    """The worker's."""
    begun.clear()
    may_end.clear()
    with Onward(url, jobs=[holding, quick, other], migrate=True) as app:
        app.store.migrate()
        yield app
        may_end.set()


def test_a_paused_queue_stops_and_goes_on(app: Onward, url: str) -> None:
    """What runs ends, what waits waits, other queues go on; the resume is heard at once."""
    worker = app.worker(concurrency=2, poll=60.0)
    with Onward(url, jobs=[holding, quick, other]) as person:
        running = person.enqueue(holding)
        worker.start()
        assert begun.wait(PATIENCE)
        assert person.pause("mail")
        waiting = person.enqueue(quick)
        assert person.enqueue(other).wait(PATIENCE).status == "completed"
        may_end.set()
        assert running.wait(PATIENCE).status == "completed"
        assert worker.wait_until_idle(PATIENCE)
        assert waiting.refresh().status == "queued"
        assert person.resume("mail")
        assert waiting.wait(PATIENCE).status == "completed"
    worker.stop()


def test_a_drain_ends_though_jobs_of_a_paused_queue_are_due(app: Onward, url: str) -> None:
    """It runs what may run; else it would wait for a person."""
    app.pause("mail")
    held, free = app.enqueue(quick), app.enqueue(other)
    app.worker(drain=True).run()
    assert (held.refresh().status, free.refresh().status) == ("queued", "completed")
