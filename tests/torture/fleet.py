"""Supervisors, worker processes and senders on one store, all of them real; and what it takes to break them and to mend them."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self, TypeAlias, TypeVar

import psutil
import psycopg
from msgspec import Struct

from onward import Onward
from onward.errors import OnwardError
from onward.ids import new_id
from tests.torture import planted
from tests.torture.application import GRACE, JOBS, LEASE, POLL, SWEEP, payload_of
from tests.torture.history import EPOCH, HOME, TICK, History, epoch
from tests.torture.sites import Site
from tests.torture.written import BASE, FOLDERS

T = TypeVar("T")
Output: TypeAlias = IO[bytes] | int | None
ROOT = Path(__file__).parents[2]
LOG = "processes.log"
"""Where all processes of a fleet log."""
PATIENCE = 45.0
"""Seconds after which a fleet counts as stuck: the longest back-off of a supervisor and a start on a busy machine."""
LOOK_EVERY = 0.04
MARGIN = 8.0
RECOVERY = 1.2 * (LEASE + SWEEP + POLL) + MARGIN
"""Seconds within which a killed worker's job is free again, with what a busy machine may need to give a process its turn."""
LATEST_STOP = GRACE + 1.0 + MARGIN


class Stuck(Exception):
    """There is nothing left to break: what was waited for stands among the failures."""


class Size(Struct, frozen=True):
    """``processes`` are the worker processes of each supervisor, ``slots`` the jobs that each runs at once."""

    supervisors: int = 2
    processes: int = 2
    slots: int = 4
    senders: int = 3
    persons: int = 0
    """Who acts on many jobs at once, and on a queue."""


class Fleet:
    """Use in a ``with`` block. ``failures`` holds what was seen to be wrong while it ran: stuck, late, left behind."""

    def __init__(self, site: Site, folder: Path, chance: random.Random, bug: str = "", size: Size | None = None) -> None:
        self.site = site
        self.chance = chance
        self.size = size or Size()
        self.failures: list[str] = []
        self.ended: set[int] = set()
        """Supervisors and senders that a fault ended."""
        self.killed: set[int] = set()
        self.histories = folder / "history"
        self.histories.mkdir()
        self.files = folder / "files"
        for name in FOLDERS:
            (self.files / name).mkdir(parents=True)
        self.supervisors: list[subprocess.Popen[bytes]] = []
        self.senders: list[subprocess.Popen[bytes]] = []
        self.persons: list[subprocess.Popen[bytes]] = []
        self._log = open(folder / LOG, "ab")  # noqa: SIM115 - for as long as the fleet runs
        self._environment = {**os.environ, "ONWARD_URL": site.url, HOME: str(self.histories), EPOCH: str(epoch()), planted.NAME: bug}
        self._environment[BASE] = str(self.files)
        self._environment["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        self.history = History(self.histories, role="nemesis")
        self.app = Onward(site.direct, jobs=JOBS.values())

    # -- processes -----------------------------------------------------------------------------------------------------

    def start_supervisor(
        self, *, before: Sequence[str] = (), environment: Mapping[str, str] | None = None, stdout: Output = None, stderr: Output = None
    ) -> subprocess.Popen[bytes]:
        """Start the real command, perhaps with another ``before`` it. What it writes goes to the log unless it is wanted elsewhere."""
        options: dict[str, object] = {"processes": self.size.processes, "concurrency": self.size.slots}
        options |= {"poll": f"{POLL}s", "sweep": f"{SWEEP}s", "grace": f"{GRACE}s"}
        flags = [f"--{name}={value}" for name, value in options.items()]
        command = [*before, sys.executable, "-m", "onward", "-A", "tests.torture.application:app", "worker", *flags]
        return self._start(command, environment, stdout, stderr)

    def _start_sender(self) -> subprocess.Popen[bytes]:
        return self._start([sys.executable, "-m", "tests.torture.sender", str(self.chance.randrange(2**32))])

    def _start(
        self, command: list[str], environment: Mapping[str, str] | None = None, stdout: Output = None, stderr: Output = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**self._environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._log if stdout is None else stdout,
            stderr=self._log if stderr is None else stderr,
            start_new_session=True,
        )

    def mend(self) -> None:
        """Start again what was ended. What ended by itself has met an error that no application could be asked to expect."""
        for process in (*self.supervisors, *self.senders):
            if process.poll() is not None and process.pid not in self.ended:
                self.ended.add(process.pid)
                self.failures.append(f"process {process.pid} ended by itself with {process.returncode}: {process.args!r}")
        self.supervisors = [one for one in self.supervisors if one.poll() is None]
        self.senders = [one for one in self.senders if one.poll() is None]
        self.supervisors += [self.start_supervisor() for _ in range(self.size.supervisors - len(self.supervisors))]
        self.senders += [self._start_sender() for _ in range(self.size.senders - len(self.senders))]

        self._mend_persons()

    def _mend_persons(self) -> None:
        """Persons die by a signal of their own, in the middle of what they do, and another goes on."""
        for person in self.persons:
            if person.poll() not in (None, -signal.SIGKILL):
                self.failures.append(f"person {person.pid} ended by itself with {person.returncode}")
        self.persons = [one for one in self.persons if one.poll() is None]
        self.persons += [self._start_person() for _ in range(self.size.persons - len(self.persons))]

    def _start_person(self) -> subprocess.Popen[bytes]:
        return self._start([sys.executable, "-m", "tests.torture.person", str(self.chance.randrange(2**32))])

    def _dismiss_persons(self) -> None:
        """Let them leave nothing paused and nothing that waits for long; if one dies before it has, another does."""
        while self.persons:
            person = self.persons.pop()
            self.wait_for(lambda: self._has_written("person", person.pid) or person.poll() is not None, "a person began")  # noqa: B023
            person.terminate()
            self._wait(person, 2 * PATIENCE, "a person")
            if person.returncode == -signal.SIGKILL and not self.failures:
                self.persons.append(self._start_person())
            elif person.returncode:
                self.failures.append(f"a person that was told to stop ended with {person.returncode}")

    def workers(self, of: subprocess.Popen[bytes] | None = None) -> list[int]:
        """The worker processes that have run a job by now: of one supervisor, or of all."""
        supervisors = self.supervisors if of is None else [of]
        children = [pid for supervisor in supervisors for pid in _children(supervisor.pid)]
        return [pid for pid in children if pid not in self.killed and self._has_written("worker", pid)]

    def a_worker(self) -> int:
        """One of the worker processes, by chance; waits until there is one."""
        return self._any(lambda: sorted(self.workers()), "a worker process runs jobs")

    def a_busy_worker(self) -> int:
        """One of those that hold a claim, by chance; waits until there is one. Any of them, where nobody can say which that are."""

        def look() -> list[int]:
            workers = set(self.workers())
            with suppress(sqlite3.Error, psycopg.Error):
                workers &= self.site.claimants()
            return sorted(workers)

        return self._any(look, "a worker process holds a job")

    def a_sender(self) -> subprocess.Popen[bytes]:
        """One of the senders that have asked for a job by now, by chance; waits until there is one."""
        return self._any(lambda: [one for one in self.senders if self._has_written("sender", one.pid)], "a sender asks for jobs")

    def _has_written(self, role: str, pid: int) -> bool:
        return (self.histories / f"{role}-{pid}.jsonl").exists()

    def programs(self) -> list[psutil.Process]:
        """All that came of the supervisors."""
        found = []
        for supervisor in self.supervisors:
            with suppress(psutil.NoSuchProcess):
                found += psutil.Process(supervisor.pid).children(recursive=True)
        return found

    def _any(self, look: Callable[[], list[T]], what: str) -> T:
        found: list[T] = []

        def is_there() -> bool:
            found[:] = look()
            return bool(found)

        self.wait_for(is_there, what)
        if not found:
            raise Stuck
        return self.chance.choice(found)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def enqueue(self, name: str, number: int = 0) -> str:
        """Enqueue one past whatever is broken, until it is accepted."""
        job_id = new_id()
        self.history.write("invoke", "enqueue", job=job_id, type=name)
        self.wait_for(lambda: self._is_accepted(name, number, job_id), "an enqueue was accepted")
        self.history.write("ok", "enqueue", job=job_id)
        return job_id

    def _clock_is_still(self) -> bool:
        try:
            self.app.periodic.pause(TICK)
        except OnwardError:
            return False
        return True

    def _is_accepted(self, name: str, number: int, job_id: str) -> bool:
        try:
            return self.app.enqueue(JOBS[name], payload_of(name, number), id=job_id).id == job_id
        except OnwardError:
            return False

    def wait_until_final(self, job_id: str, seconds: float = PATIENCE) -> float:
        """Give the seconds that it took."""
        began = time.monotonic()
        self.wait_for(lambda: self._is_final(job_id), f"job {job_id} ended", seconds)
        return time.monotonic() - began

    def _is_final(self, job_id: str) -> bool:
        try:
            return self.app.get(job_id).status.is_final
        except OnwardError:
            return False

    def wait_for(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
        """Another process can only be asked, so ask. What never comes is among the failures, and the run goes on to its verdict."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                self.failures.append(f"it took more than {seconds:g} s until {what}")
                return
            time.sleep(LOOK_EVERY)

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.mend()
        self.wait_for(lambda: len(self.workers()) == self.size.supervisors * self.size.processes, "every worker process had run a job")
        return self

    def drain(self) -> None:
        """Let the senders end, and the workers run all that there is."""
        self.mend()
        for sender in self.senders:
            sender.terminate()
        for sender in self.senders:
            self.ended.add(sender.pid)
            self._wait(sender, 2 * PATIENCE, "a sender")
            if sender.returncode not in (0, -signal.SIGTERM):  # the signal itself ends one that is still being loaded
                self.failures.append(f"a sender that was told to stop ended with {sender.returncode}")
        self._dismiss_persons()
        self.wait_for(self._clock_is_still, "the clock was told to enqueue no more")
        self.wait_for(lambda: self.site.unfinished() == 0, "nothing was left to run", 2 * PATIENCE)

    def stop(self) -> None:
        """End the supervisors as an operator does, and look at how they end. One that was just started hears no signal yet."""
        self.wait_for(lambda: all(_children(one.pid) for one in self.supervisors), "every supervisor had started a worker")
        for supervisor in self.supervisors:
            supervisor.send_signal(signal.SIGTERM)
        for supervisor in self.supervisors:
            self.expect_end(supervisor, {0})

    def expect_end(self, supervisor: subprocess.Popen[bytes], codes: set[int]) -> None:
        """A supervisor that was told to stop ends in time, with one of these codes, and no process of its own outlives it."""
        try:
            children = psutil.Process(supervisor.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        self.ended.add(supervisor.pid)
        self._wait(supervisor, LATEST_STOP, "a supervisor")
        if supervisor.returncode not in codes:
            self.failures.append(f"a supervisor ended with exit code {supervisor.returncode}")
        _, alive = psutil.wait_procs(children, MARGIN)
        for process in alive:
            self.failures.append(f"process {process.pid} outlived its supervisor")

    def _wait(self, process: subprocess.Popen[bytes], seconds: float, what: str) -> None:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.failures.append(f"{what} did not end within {seconds:g} s")
            kill_tree(process.pid)
            process.wait()

    def __exit__(self, *_: object) -> None:
        for process in (*self.supervisors, *self.senders, *self.persons):
            if process.poll() is None:
                kill_tree(process.pid)
            process.wait()
        self.app.close()
        self._log.close()


def _children(pid: int) -> list[int]:
    """The processes that one has started. By the kernel's own list where it has one: psutil has to look at every process there is."""
    lists = list(Path(f"/proc/{pid}/task").glob("*/children"))
    with suppress(FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
        if lists:
            return [int(child) for one in lists for child in one.read_text().split()]
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def kill_tree(pid: int) -> None:
    """Kill a process that we started, and all that came of it."""
    try:
        root = psutil.Process(pid)
        tree = [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return
    for process in tree:
        try:
            process.resume()
            process.kill()
        except psutil.NoSuchProcess:
            continue
