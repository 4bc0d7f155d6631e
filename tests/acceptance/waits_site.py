"""What the tests of breakers, limits and lines share: a store, worker processes, and what the handlers said."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import psycopg

from onward import Onward
from onward.inspection import JobFilter
from onward.status import Status
from tests.acceptance.waits_app import JOBS, LOG
from tests.acceptance.worker_process import WorkerProcess
from tests.torture.store import path_of

PATIENCE = 120.0
LIVE = (Status.QUEUED, Status.RETRYING, Status.IN_PROGRESS)


class Line(NamedTuple):
    """What a handler said."""

    what: str
    key: str
    number: int
    job: str
    fence: int
    pid: int
    at: float


class Site:
    """A store, and the folder in which handlers look for what they are to do."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.app = Onward(url, jobs=JOBS.values(), migrate=True)
        self.app.store.open()
        self._url = url
        self.killed: dict[int, float] = {}
        """When each process was killed."""

    def lines(self, *whats: str) -> list[Line]:
        """What was said by now, or of it what is asked for."""
        log = self.home / LOG
        said = [one.split() for one in log.read_text().splitlines()] if log.exists() else []
        found = [Line(what, key, int(number), job, int(fence), int(pid), float(at)) for what, key, number, job, fence, pid, at in said]
        return [one for one in found if not whats or one.what in whats]

    def say(self, file: str) -> None:
        (self.home / file).touch()

    def unsay(self, file: str) -> None:
        (self.home / file).unlink()

    def live(self, *types: str) -> int:
        return self.app.store.count(JobFilter(statuses=LIVE, types=types))

    def kill(self, pid: int) -> None:
        """Also what came of it is dead then: a job that was lost before has a process to itself."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        with suppress(psutil.NoSuchProcess):
            self.killed.update((one.pid, now) for one in psutil.Process(pid).children(recursive=True))
        self.killed[pid] = now
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def kill_now_and_then(self, chance: random.Random, times: int, jobs: int) -> None:
        """Kill workers in the middle of runs, evenly over so many of them."""
        for turn in range(times):
            self.wait_for(lambda: len(self.lines("end")) >= jobs * (turn + 1) // (times + 2), "some jobs were done")  # noqa: B023
            busy: list[int] = []

            def is_busy(busy: list[int] = busy) -> bool:
                busy[:] = self._busy()
                return bool(busy)

            self.wait_for(is_busy, "a worker runs a job")
            self.kill(chance.choice(busy))

    def _busy(self) -> list[int]:
        over = {(one.job, one.fence) for one in self.lines("end", "failed")}
        busy = {one.pid for one in self.lines("start") if (one.job, one.fence) not in over and one.pid not in self.killed}
        return sorted(busy)

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        """Ask the database itself; ``{}`` stands before the name of a table."""
        if self._url.startswith("sqlite"):
            with closing(sqlite3.connect(path_of(self._url), timeout=10)) as connection:
                return connection.execute(question.format("onward_")).fetchall()
        with psycopg.connect(self._url) as connection:
            return connection.execute(question.format("onward.").encode()).fetchall()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Another process can only be asked, so ask."""
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, f"it took too long until {what}"
            time.sleep(0.02)

    @contextmanager
    def workers(self, processes: int, slots: int) -> Iterator[WorkerProcess]:
        arguments = (f"--processes={processes}", f"--concurrency={slots}", "--grace=2s", "--poll=0.1s", "--sweep=0.5s")
        with WorkerProcess(self.home, *arguments, app="tests.acceptance.waits_app:app") as worker:
            yield worker


def most_at_once(site: Site) -> dict[str, int]:
    """How many runs of each key were under way at once, at most: from their beginning to their end, or to the death of their process."""
    ends = {(one.job, one.fence): one.at for one in site.lines("end", "failed")}
    steps: dict[str, list[tuple[float, int]]] = {}
    for one in site.lines("start"):
        end = ends.get((one.job, one.fence), site.killed.get(one.pid))
        assert end is not None, f"{one} has no end"
        steps.setdefault(one.key, []).extend([(one.at, 1), (max(end, one.at), -1)])
    most = {}
    for key, found in steps.items():
        at_once = [0]
        for _, step in sorted(found):
            at_once.append(at_once[-1] + step)
        most[key] = max(at_once)
    return most
