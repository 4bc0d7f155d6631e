"""A worker whose storage fails: it goes on by itself once the fault is over."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.torture.aftermath import look_at
from tests.torture.promises import GONE, Said
from tests.torture.report import Report
from tests.torture.shop import job_id
from tests.torture.syscalls.places import Place
from tests.torture.traced import PATIENCE, ROOT, environment

JOBS = 10
FAILED = re.compile(r"(\w+) failed \(")
NEW = 500
"""The job that ``tests.torture.syscalls.workshop`` tries to enqueue."""


class WorkerProcesses:
    """``onward worker`` over the shop in ``home``, a supervisor and one child, which writes to files in ``room``."""

    def __init__(self, place: Place, room: Path, tracer: Sequence[str] = ()) -> None:
        self._output, self._errors = room / "worker.out", room / "worker.err"
        command = [sys.executable, "-m", "onward", "-A", "tests.torture.syscalls.workshop:app", "worker", "--concurrency", "2"]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*tracer, *command, "--poll", "200ms"],
                cwd=ROOT,
                env=environment() | {"SHOP_HOME": str(place.home)},
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it has written so far; the last line may still be on its way."""
        lines = self._output.read_text(errors="replace").splitlines()
        return [event for line in lines if line.endswith("}") and (event := json.loads(line)).get("event") == name]

    def completed(self) -> int:
        """How many of the jobs that waited for it are completed."""
        return len({event["job_id"] for event in self.events("completed")} & {job_id(number) for number in range(1, JOBS + 1)})

    @property
    def failures(self) -> int:
        """How many rounds of its loops failed."""
        return len(FAILED.findall(self._errors.read_text(errors="replace")))

    def wait_for(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until it is so. Raises ``AssertionError`` when the worker ends before, or nothing comes."""
        until = time.monotonic() + PATIENCE
        while not is_so():
            said = self._errors.read_text(errors="replace")[-1500:]
            assert self.process.poll() is None, f"the worker ended before {what}: {said}"
            assert time.monotonic() < until, f"never: {what}: {said}"
            time.sleep(0.02)

    def everyone(self) -> list[int]:
        """The worker and all that it started."""
        return [self.process.pid, *(one.pid for one in psutil.Process(self.process.pid).children(recursive=True))]

    def stop(self) -> int:
        """SIGTERM to the supervisor, which a tracer may stand before; gives the exit code."""
        for pid in self.everyone()[:2]:
            os.kill(pid, signal.SIGTERM)
        return self.process.wait(PATIENCE)

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Whatever happens, nothing of it is left."""
        try:
            yield
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def outlast(name: str, place: Place, room: Path, report: Report, tracer: Sequence[str] = (), failures: int = 2) -> None:
    """Let a worker meet the fault, mend it, and see that the same process does all the work."""
    worker = WorkerProcesses(place, room, tracer)
    said = Said(f"is job:{job_id(number)} completed" for number in range(1, JOBS + 1))
    try:
        with worker.ended():
            worker.wait_for("it said that it has started", lambda: bool(worker.events("worker_started")))
            place.hurt(worker.everyone())
            worker.wait_for("its loops failed", lambda: worker.failures >= failures)
            report.fired(name)
            if not tracer:
                report.failures += [f"{name}: {line}" for line in _is_refused(place, said)]
            place.mend(worker.everyone())
            worker.wait_for("all jobs were completed", lambda: worker.completed() >= JOBS)
            starts = len(worker.events("worker_started"))
            if (code := worker.stop()) != 0 or starts != 1:
                report.failures.append(f"{name}: the worker was started {starts} times, and ended with exit code {code}")
    except (AssertionError, subprocess.TimeoutExpired) as error:
        report.failures.append(f"{name}: {error}")
        return
    report.count("workers that went on")
    report.failures += [f"{name}: {line}" for line in look_at(place.behind or place.home, said)]


def _is_refused(place: Place, said: Said) -> Iterator[str]:
    """While the fault lasts, an enqueue in a process of its own is refused, and then nothing may be stored; or its outcome is unknown."""
    command = [sys.executable, "-m", "tests.torture.syscalls.workshop"]
    environs = environment() | {"SHOP_HOME": str(place.home)}
    done = subprocess.run(command, cwd=ROOT, env=environs, preexec_fn=place.before, capture_output=True, text=True, check=False)
    answer = done.stdout.strip()
    if answer == "refused":
        said.add(f"is job:{job_id(NEW)} {GONE}")
    elif answer == "unknown":
        for status in ("queued", "in_progress", "completed"):
            said.add(f"will job:{job_id(NEW)} {status}")
    else:
        yield f"an enqueue during the fault was {answer or done.stderr.strip()[-300:]}"
