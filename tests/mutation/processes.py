"""Runs pieces of work in forked processes, a few at a time, and ends one that is silent for too long."""

from __future__ import annotations

import json
import os
import resource
import selectors
import shutil
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe, get_context
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

Said: TypeAlias = dict[str, Any]
Say: TypeAlias = Callable[[Mapping[str, Any]], None]
Task = TypeVar("Task")
MOST_MEMORY = 4 * 2**30
"""Bytes that a process may take: a mutant may read rows without end."""
FIRST_PATIENCE = 60.0
"""Seconds until a process has to say its first word."""


@dataclass
class Ended(Generic[Task]):
    """How the process of one task ended. ``said`` is the last that it said; ``has_hung`` that it was silent for too long."""

    task: Task
    said: Said
    has_hung: bool
    seconds: float


@dataclass
class _Running(Generic[Task]):
    task: Task
    pid: int
    pipe: int
    folder: Path
    deadline: float
    began: float = field(default_factory=time.monotonic)
    heard: bytes = b""
    said: Said = field(default_factory=dict)


def run_forked(tasks: Iterable[Task], work: Callable[[Task, Say], None], jobs: int) -> Iterator[Ended[Task]]:
    """Give each task's end as it comes. What ``work`` says may have ``patience``: the seconds until it must speak again.

    Each process has a session and a temporary folder of its own, which end with it, and nothing to print to.
    """
    waiting = deque(tasks)
    running: dict[int, _Running[Task]] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    started = _fork(waiting.popleft(), work)
                    running[started.pipe] = started
                    selector.register(started.pipe, selectors.EVENT_READ)
                next_deadline = min(one.deadline for one in running.values())
                ready = {key.fd for key, _ in selector.select(max(next_deadline - time.monotonic(), 0))}
                for one in list(running.values()):
                    has_ended = one.pipe in ready and not _hear(one)
                    has_hung = not has_ended and time.monotonic() >= one.deadline
                    if has_ended or has_hung:
                        selector.unregister(one.pipe)
                        del running[one.pipe]
                        _end(one)
                        yield Ended(one.task, one.said, has_hung, time.monotonic() - one.began)
        finally:
            for one in running.values():
                _end(one)


def in_process(work: Callable[[Callable[[Any], None]], None]) -> Iterator[Any]:
    """Run ``work`` in one forked process, and give what it sends. Raises ``RuntimeError`` if it fails."""
    ours, theirs = Pipe(duplex=False)

    def run() -> None:
        try:
            work(lambda value: theirs.send((value, "")))
            theirs.send((None, "ended"))
        except BaseException:
            theirs.send((None, traceback.format_exc()))
            raise

    process = get_context("fork").Process(target=run)
    process.start()
    theirs.close()
    while True:
        value, end = ours.recv()
        if end:
            break
        yield value
    process.join()
    if end != "ended":
        raise RuntimeError(end)


def _fork(task: Task, work: Callable[[Task, Say], None]) -> _Running[Task]:
    ours, theirs = os.pipe()
    folder = Path(tempfile.mkdtemp(prefix="onward-mutant-"))
    pid = os.fork()
    if pid:
        os.close(theirs)
        return _Running(task, pid, ours, folder, time.monotonic() + FIRST_PATIENCE)
    try:
        os.close(ours)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        with os.fdopen(theirs, "w", buffering=1) as pipe:
            try:
                work(task, lambda said: print(json.dumps(said), file=pipe, flush=True))
            except BaseException:
                print(json.dumps({"error": traceback.format_exc()}), file=pipe, flush=True)
    finally:
        os._exit(0)


def _hear(one: _Running[Task]) -> bool:
    """Take what it said. False when it has ended."""
    read = os.read(one.pipe, 1 << 16)
    *lines, one.heard = (one.heard + read).split(b"\n")
    for line in lines:
        one.said = json.loads(line)
        one.deadline = time.monotonic() + one.said.get("patience", FIRST_PATIENCE)
    return bool(read)


def _end(one: _Running[Task]) -> None:
    os.close(one.pipe)
    with suppress(ProcessLookupError):
        os.killpg(one.pid, signal.SIGKILL)
    os.waitpid(one.pid, 0)
    shutil.rmtree(one.folder, ignore_errors=True)
