"""How an idle worker wakes: another process's commit, a call in this process, or the poll behind both."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.drivers.sqlite.driver import SQLiteStore
from onward.drivers.sqlite.file_events import watch
from onward.drivers.sqlite.waker import Waker
from onward.testing.conformance.steps import until_it_waits
from onward.testing.factories import make_new_job
from onward.turn import Demand

NOT_AT_ALL, HOUR = timedelta(0), timedelta(hours=1)
PATIENCE = 60
"""Seconds that a test gives what is to wake the wait. The wait itself, and the poll behind it, take an hour."""
DEMAND = Demand(lease_owner="host:1:one", slots=10, types={"work": timedelta(seconds=60)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(path, clock=FakeClock(), poll=HOUR)
    store.turn(demand=DEMAND)
    store.wait(NOT_AT_ALL)
    store.turn(demand=DEMAND)
    yield store
    store.close()


def waiting(act: Callable[[], bool]) -> tuple[threading.Thread, list[bool]]:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(act()), daemon=True)
    thread.start()
    until_it_waits(thread)
    return thread, answers


def test_nothing_new_times_out(store: SQLiteStore) -> None:
    """The worker's own turns and heartbeats are no news, or it would spin."""
    store.extend([])
    assert not store.wait(timedelta(milliseconds=20))
    store.turn(demand=DEMAND)
    assert not store.wait(timedelta(milliseconds=20))


def test_another_processs_enqueue_wakes_a_waiting_worker(store: SQLiteStore, path: Path) -> None:
    """Without a server to notify anybody, the file itself tells."""
    code = (
        "from onward.clock import SystemClock; from onward.drivers import connect; from onward.testing.factories import make_new_job\n"
        f"connect('sqlite:///{path}', clock=SystemClock()).enqueue([make_new_job()])"
    )
    thread, answers = waiting(lambda: store.wait(HOUR))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    thread.join(PATIENCE)
    assert answers == [True]


def test_a_commit_between_turn_and_wait_is_not_missed(store: SQLiteStore, path: Path) -> None:
    """The event was over before the wait began; what counts is whether anything was committed since the turn."""
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    assert store.wait(NOT_AT_ALL)
    store.turn(demand=DEMAND)
    assert not store.wait(NOT_AT_ALL)
    other.close()


def test_an_enqueue_in_this_process_wakes(store: SQLiteStore) -> None:
    """Also one that came before the wait."""
    store.enqueue([make_new_job()])
    assert store.wait(NOT_AT_ALL)
    store.turn(demand=DEMAND)
    thread, answers = waiting(lambda: store.wait(HOUR))
    store.enqueue([make_new_job()])
    thread.join(PATIENCE)
    assert answers == [True]


def test_a_borrowed_connection_wakes_when_it_commits(store: SQLiteStore, path: Path) -> None:
    """The job is there at the commit, which is the application's and not ours."""
    thread, answers = waiting(lambda: store.wait(HOUR))
    connection = sqlite3.connect(path)
    store.within(connection).enqueue([make_new_job()])
    connection.commit()
    connection.close()
    thread.join(PATIENCE)
    assert answers == [True]


def test_wake_ends_a_wait_and_is_kept_for_the_next(store: SQLiteStore) -> None:
    """Stopping must not take as long as a poll."""
    store.wake()
    store.wake()
    assert store.wait(NOT_AT_ALL)
    assert not store.wait(NOT_AT_ALL)
    thread, answers = waiting(lambda: store.wait(HOUR))
    store.wake()
    thread.join(PATIENCE)
    assert answers == [True]


def test_a_signal_handler_may_wake(store: SQLiteStore) -> None:
    """It interrupts any line of Python, so it must not wait for a lock that this line holds."""
    handled: list[int] = []

    def wake(number: int, frame: object) -> None:
        handled.append(number)
        store.wake()

    before = signal.signal(signal.SIGUSR1, wake)
    # Only a wait that nothing ends is ended by this; then the test fails, instead of waiting for an hour.
    rescue = threading.Timer(PATIENCE, os.kill, (os.getpid(), signal.SIGINT))
    rescue.daemon = True
    rescue.start()
    try:
        timer = threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        timer.start()
        assert store.wait(HOUR)
        timer.join()
        assert handled
    finally:
        rescue.cancel()
        signal.signal(signal.SIGUSR1, before)


def test_closing_wakes_whoever_waits(store: SQLiteStore) -> None:
    """A worker that is being shut down must not sit out its poll."""
    thread, answers = waiting(lambda: store.wait(HOUR))
    store.close()
    thread.join(PATIENCE)
    assert answers == [True]


def test_without_file_events_a_poll_finds_the_news(path: Path) -> None:
    """Some systems have no inotify, or no watches left."""
    answers = iter([False, False, True])
    waker = Waker(path, lambda: next(answers), events=lambda _: None, poll=3600)
    assert waker.wait(3600)
    assert next(answers, None) is None


def test_files_beside_the_database_wake_nobody(path: Path) -> None:
    """An application may write its logs there a thousand times a second."""
    path.write_bytes(b"")
    events = watch(path)
    assert events is not None
    (path.parent / "app.log").write_text("line")
    assert not events.drain()
    with path.open("ab") as file:
        file.write(b"x")
    assert events.drain()
    log = path.parent / "jobs.db-wal"
    log.write_bytes(b"")
    assert events.drain()
    log.write_bytes(b"frame")
    assert events.drain()
    log.unlink()
    events.drain()
    log.write_bytes(b"new")
    assert events.drain()
    events.close()


def test_a_directory_that_cannot_be_watched_is_polled(tmp_path: Path) -> None:
    """No events are no error."""
    assert watch(tmp_path / "missing" / "jobs.db") is None
