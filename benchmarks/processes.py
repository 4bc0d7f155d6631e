"""Starts the fresh processes of a measurement, and ends them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.places import Place, tree
from benchmarks.probe import FILE, Probe
from benchmarks.role import BEGINS, URL
from benchmarks.subjects import ONWARD

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0


class Failed(Exception):
    """A process of the measurement did not do what it should. Says what it wrote."""


class NotMeasured(Exception):
    """This machine lacks what the measurement needs. Says what."""


def run_role(place: Place, role: str, *, under: Sequence[str] = (), **options: Any) -> dict[str, float]:
    """Do this in a fresh process, and give its figures. ``under`` is the command of a program that starts it and watches over it."""
    command = [*under, *_role(place.subject, role, options)]
    done = subprocess.run(command, env=_environment(place), cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Failed(f"{place.subject} {role} on {place.store}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


@contextmanager
def role_in_background(place: Place, role: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """The same beside something else; killed at the end of the block if it goes on."""
    with subprocess.Popen(
        _role(place.subject, role, options), env=_environment(place), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_begin(process: subprocess.Popen[str]) -> None:
    """Wait until a role in the background is warm. Raises ``Failed``."""
    said = _next_line(process, PATIENCE)
    if said != BEGINS:
        raise Failed(f"a role did not begin, but said {said!r}")


def figures_of(process: subprocess.Popen[str], seconds: float) -> dict[str, float]:
    """Wait so long for the end of a role in the background, and give its figures. Raises ``Failed``."""
    figures: dict[str, float] = json.loads(_next_line(process, seconds))
    return figures


def _next_line(process: subprocess.Popen[str], seconds: float) -> str:
    assert process.stdout is not None
    killer = threading.Timer(seconds, process.kill)
    killer.start()
    try:
        line = process.stdout.readline()
    finally:
        killer.cancel()
    if not line:
        raise Failed(f"a role in the background ended before its time, or took more than {seconds:.0f} s")
    return line.strip()


def _role(subject: str, role: str, options: dict[str, Any]) -> list[str]:
    flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items() if value is not False]
    return [sys.executable, "-m", "benchmarks.role", subject, role, *flags]


def _environment(place: Place, probe: Path | None = None, **more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    probed = {} if probe is None else {FILE: str(probe)}
    return {**inherited, "PYTHONPATH": path, URL: place.url, **probed, **more}


class Workers:
    """Worker processes of a subject at work. ``probe`` counts what they begin."""

    def __init__(self, programs: list[psutil.Popen], probe: Probe, log: Path) -> None:
        self.programs, self.probe, self._log = programs, probe, log

    def processes(self) -> list[psutil.Process]:
        """All of them, supervisors and what isolated handlers run in included."""
        return [one for program in self.programs for one in tree(program)]

    def lines_with(self, words: str) -> int:
        """How many lines of their log hold these words."""
        with self._log.open(errors="replace") as log:
            return sum(words in line for line in log)

    def wait_for(self, condition: Any, what: str, seconds: float = PATIENCE) -> None:
        """Ask every 5 ms. Raises ``Failed``."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until or any(program.poll() is not None for program in self.programs):
                raise Failed(f"it did not come to pass that {what}: {self._last_words()}")
            time.sleep(0.005)

    def _last_words(self) -> str:
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - 2000))
            return log.read().decode(errors="replace")


@contextmanager
def workers(
    place: Place,
    *,
    job: str = "async-0",
    processes: int = 1,
    batch: int = 100,
    settings: dict[str, str] | None = None,
    room: Path | None = None,
) -> Iterator[Workers]:
    """Start the workers of a place, and stop them as an operator does."""
    with tempfile.TemporaryDirectory(prefix="onward-benchmark-", dir=room) as folder:
        shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(folder)
        probe_file = shared / f"onward-benchmark-{os.getpid()}"
        probe = Probe.create(probe_file)
        log = Path(folder) / "log"
        environment = _environment(place, probe_file, **(settings or {}))
        if place.subject != ONWARD:
            command = _role(place.subject, "worker", {"job": job, "batch": batch})
            commands = [command] * processes
        else:
            environment["ONWARD_URL"] = place.url
            options = [f"--concurrency={batch}", f"--processes={processes}"]
            commands = [[sys.executable, "-m", "onward", "-A", "benchmarks.application:app", "worker", *options]]
        programs: list[psutil.Popen] = []
        try:
            with log.open("w") as output:
                for command in commands:
                    started = psutil.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
                    programs.append(started)
                yield Workers(programs, probe, log)
        finally:
            for program in programs:
                _stop(program)
            Probe.create(probe_file)
            probe_file.unlink()


def _stop(program: psutil.Popen) -> None:
    family = tree(program)
    if program.poll() is None:
        program.terminate()
    _, alive = psutil.wait_procs(family, 10)
    for process in alive:
        process.kill()
    program.wait(10)
