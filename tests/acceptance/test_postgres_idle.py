"""What many idle workers cost a Postgres server, counted in its own log."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from onward import Onward, define_job
from onward.worker.worker import Worker
from tests.postgres_wheel import OwnServer

WORKERS = 20
PATIENCE = 60.0
_LINE = re.compile(r"^([\d.]+)\|(\w+)\|LOG:  (?:statement|execute [^:]*): (.*)$", re.MULTILINE)
note = define_job("note", lambda: None)


class Logged(NamedTuple):
    """One statement, by the server's clock; ``worker`` is the name that its connections give."""

    at: float
    worker: str
    sql: str

    @property
    def is_claim(self) -> bool:
        return self.sql.startswith("WITH RECURSIVE clock")


class Fleet:
    """Twenty workers, each with a store and connections of its own, on one server that logs every statement."""

    def __init__(self, server: OwnServer) -> None:
        self.server = server
        server.execute("ALTER SYSTEM SET log_statement = 'all'")
        server.execute("ALTER SYSTEM SET log_line_prefix = '%n|%a|'")
        server.execute("SELECT pg_reload_conf()")
        self.app = self._make("application")
        self.app.store.migrate()
        self._apps = [self._make(f"worker_{number}") for number in range(WORKERS)]
        self.workers: list[Worker] = []
        for app in self._apps:
            self.workers.append(app.worker(concurrency=4))
            self.workers[-1].start()

    def _make(self, name: str) -> Onward:
        return Onward(f"{self.server.url}?application_name={name}", jobs=[note])

    def wait_until_quiet(self) -> None:
        """Every worker has proven that notifications reach it, so from here on it sleeps for as long as it ever does; it is known, and has
        pruned.
        """
        _wait_for(lambda: all(app.store.wakes_surely for app in self._apps))
        _wait_for(lambda: len(self.app.store.workers()) == WORKERS)
        _wait_for(lambda: all(worker.pruner.rounds for worker in self.workers))
        for worker in self.workers:
            assert worker.wait_until_idle(PATIENCE)

    def now(self) -> float:
        """The server's clock, in seconds since 1970, as its log has it."""
        ((now,),) = self.server.execute("SELECT extract(epoch FROM clock_timestamp())::double precision")
        assert isinstance(now, float)
        return now

    def logged(self, since: float, seconds: float) -> list[Logged]:
        """What the workers asked in this time, once it is over by the server's clock."""
        _wait_for(lambda: self.now() > since + seconds, patience=seconds + PATIENCE)
        found = [Logged(float(at), name, sql) for at, name, sql in _LINE.findall(self.server.log)]
        return [one for one in found if one.worker.startswith("worker_") and since <= one.at <= since + seconds]

    def close(self) -> None:
        for worker in self.workers:
            worker.ask_to_stop(grace=0)
        for worker in self.workers:
            worker.stop()
        for app in (*self._apps, self.app):
            app.close()


def _wait_for(is_so: Callable[[], bool], patience: float = PATIENCE) -> None:
    until = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def fleet(private_postgres: OwnServer) -> Iterator[Fleet]:
    fleet = Fleet(private_postgres)
    try:
        yield fleet
    finally:
        fleet.close()


def test_one_job_does_not_make_twenty_idle_workers_storm_the_server(fleet: Fleet) -> None:
    """Each wakes, looks once, and goes back to sleep; whoever got the job looks once more when it has ended."""
    fleet.wait_until_quiet()
    since = fleet.now()
    handle = fleet.app.enqueue(note)
    _wait_for(lambda: handle.refresh().status == "completed")
    claims = [one for one in fleet.logged(since, 1) if one.is_claim]
    assert 1 <= len(claims) < 25
    print(f"claims of {WORKERS} idle workers for one job: {len(claims)}")


def test_idle_workers_leave_the_server_alone(fleet: Fleet) -> None:
    """A minute of nothing: polls behind the notifications, their proof, sweeps, looks at periodic jobs, in under ten statements a worker.

    On average: what comes every thirty seconds comes two or three times in a minute.
    """
    fleet.wait_until_quiet()
    logged = fleet.logged(fleet.now(), 60)
    asked = Counter(one.worker for one in logged)
    assert len(asked) == WORKERS
    busiest, most = asked.most_common(1)[0]
    told = (asked, [one for one in logged if one.worker == busiest])
    assert len(logged) / WORKERS < 10, told
    assert most < 15, told
    print(f"statements of an idle worker in a minute: {len(logged) / WORKERS:.1f}, {min(asked.values())} to {most}")
