"""Ten times the tables are filled by workers and pruned beside them: they grow no larger, and nothing goes that is not due.

``RETENTION_JOBS=1000000 pytest tests/acceptance/test_retention.py`` is what a release does, on a machine that does nothing else.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from onward import Kept, Onward, PermanentJobError, Retention, define_job
from onward.clock import FakeClock
from onward.drivers.postgres.url import read_url
from onward.inspection import JobFilter
from onward.status import Status
from onward.worker.worker import Worker

JOBS = int(os.environ.get("RETENTION_JOBS", "1000"))
"""How many go through in all."""
CYCLES = 10
AT_ONCE = 1000
WEEK = timedelta(days=7)
LARGEST_LOG = 64 * 1024 * 1024
PATIENCE = 120.0 + JOBS / 100

BETWEEN_LOOKS = 0.02 + JOBS / 5_000_000
"""Seconds. A look counts what waits, and many looks at many jobs would be most of the work."""
pytestmark = pytest.mark.timeout(240 + JOBS // 50)


def nothing(number: int) -> None:
    """What most jobs do: then the tables are what counts."""


def fail(number: int) -> None:
    raise PermanentJobError("nobody can do this")


PLAIN, BRIEF, LIVE, KEPT, SLOW = (
    define_job(name, nothing, queue="slow" if name == "slow" else "default") for name in ("plain", "brief", "live", "kept", "slow")
)
DEAD = define_job("dead", fail)
RETENTION = Retention(
    completed=WEEK,
    types={"brief": Kept(completed="1d"), "kept": Kept(completed=None)},
    queues={"slow": Kept(completed=None)},
)


class Site:
    """A store with two workers on it, and a clock that only the test moves."""

    def __init__(self, url: str) -> None:
        self.clock = FakeClock()
        self.url = url
        self.app = self.application()
        self.app.store.open()
        self._others = [self.application() for _ in range(2)]
        self.largest_log = 0
        self.must_stay: set[str] = set()

    def application(self) -> Onward:
        jobs = [PLAIN, BRIEF, LIVE, KEPT, SLOW, DEAD]
        return Onward(self.url, jobs=jobs, retention=RETENTION, clock=self.clock, migrate=True)

    def workers(self) -> list[Worker]:
        """Each on a store of its own, as in processes of their own."""
        return [app.worker(concurrency=50, poll="50ms", sweep_every="1h", prune_every="50ms") for app in self._others]

    def close(self) -> None:
        for app in (self.app, *self._others):
            app.close()

    def fill(self, count: int) -> None:
        """So many through, half of which go early, and of each other kind one that stays."""
        halves = [job.new_job(number) for number in range(count // 2) for job in (PLAIN, BRIEF)]
        for first in range(0, len(halves), AT_ONCE):
            self.app.enqueue_many(halves[first : first + AT_ONCE])
        self.must_stay |= {self.app.enqueue(job, 0).id for job in (KEPT, SLOW, DEAD)}
        self.wait_for(lambda: self.count(Status.QUEUED, Status.IN_PROGRESS, Status.RETRYING) == 0, "all were done")

    def work_until(self, condition: Callable[[], bool], what: str) -> list[str]:
        """Ask for work and see it done, until that is so; gives the jobs."""
        asked: list[str] = []

        def is_so() -> bool:
            asked.extend(one.id for one in self.app.enqueue_many([LIVE.new_job(0) for _ in range(3)]))
            return condition()

        self.wait_for(is_so, what)
        self.wait_for(lambda: self.count(Status.QUEUED, Status.IN_PROGRESS, Status.RETRYING) == 0, "what was asked for meanwhile was done")
        return asked

    def count(self, *statuses: Status, types: tuple[str, ...] = ()) -> int:
        return self.app.store.count(JobFilter(statuses=statuses, types=types))

    def exist(self, ids: list[str] | set[str]) -> int:
        return self.app.store.count(JobFilter(ids=tuple(ids)))

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Workers have threads of their own and can only be asked, so ask."""
        until = time.monotonic() + PATIENCE
        while not condition():
            self.look_at_log()
            assert time.monotonic() < until, f"it took too long until {what}"
            self.clock.advance(0.001)  # no clock stands still while thousands of jobs end
            threading.Event().wait(BETWEEN_LOOKS)

    def look_at_log(self) -> None:
        if self.url.startswith("sqlite"):
            log = Path(self.url.removeprefix("sqlite:///") + "-wal")
            self.largest_log = max(self.largest_log, log.stat().st_size)


class OnSQLite(Site):
    """How large the file is: what is still in the log counts as well."""

    def sizes(self) -> int:
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            return int(pages)


class OnPostgres(Site):
    """How large all indexes are. The server is told to clean up when its own would: it may be set to do nothing by itself."""

    def sizes(self) -> int:
        with psycopg.connect(read_url(self.url)[0], autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
            row = connection.execute(
                "SELECT sum(pg_indexes_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'onward'::regnamespace"
            ).fetchone()
            assert row is not None
            return int(row[0])


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    made = (OnSQLite if database_url.startswith("sqlite") else OnPostgres)(database_url)
    with closing(made):
        yield made


def test_tables_that_are_filled_and_pruned_in_turns_stay_as_they_are(site: OnSQLite | OnPostgres) -> None:
    """While workers go on, and with what is kept in between what goes."""
    workers = site.workers()
    for worker in workers:
        worker.start()
    full, empty = [], []
    for _ in range(CYCLES):
        site.fill(JOBS // CYCLES)
        full.append(site.sizes())
        plain = site.count(types=("plain",))
        site.clock.advance(timedelta(days=1))
        young = site.work_until(lambda: site.count(types=("brief",)) == 0, "what is kept for a day was gone")
        assert site.count(types=("plain",)) == plain == JOBS // CYCLES // 2, "what is kept for a week is still there"
        site.clock.advance(WEEK - timedelta(days=1))
        young += site.work_until(lambda: site.count(types=("plain",)) == 0, "the rest was gone")
        assert site.exist(young) == len(young)
        assert site.exist(site.must_stay) == len(site.must_stay)
        empty.append(site.sizes())
    for worker in workers:
        worker.ask_to_stop()
        assert worker.finished.wait(PATIENCE)
    print(f"{JOBS:,} jobs: full {full}, pruned {empty}, largest log {site.largest_log:,}")
    assert site.largest_log < LARGEST_LOG
    if isinstance(site, OnSQLite):
        assert full[-1] <= full[1] * 1.05
        assert empty[-1] <= empty[1] * 1.05
    else:
        assert full[-1] < 3 * full[0]
        assert empty[-1] < 3 * full[0]
