"""What each process of a run says that it did: one JSON line an event, in a file of its own, so that no death loses another's lines."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

Kind: TypeAlias = Literal["invoke", "ok", "fail", "unknown", "started", "ended", "fault", "healed", "asked", "answered"]
"""``invoke`` before an enqueue and ``ok``, ``fail`` or ``unknown`` behind it; ``started`` and ``ended`` of a handler, the latter just
before it returns or commits; ``fault`` and ``healed`` of what was broken on purpose; ``asked`` before what a person does to a job (``job``
says which), to many, or to a queue, and ``answered`` behind it."""

LETTER, LETTERS = "letter", "letters"
"""The type and the queue of the jobs that a person acts on by the dozen, and nobody else."""
TICK, EVERY = "tick", 1.0
"""The type of the jobs that the clock enqueues, and how many seconds lie between two of them."""
HOME = "TORTURE_HOME"
"""The environment variable that names the folder of the files."""
EPOCH = "TORTURE_EPOCH"
"""The environment variable with what makes an instant of a reading of ``steady``: some processes are given a wrong clock on purpose."""


def steady() -> float:
    """Seconds of a clock that no fault touches: neither a wrong wall clock, nor a monotonic clock that was moved."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def epoch() -> float:
    """What to add to ``steady`` to get the seconds since 1970. For a process with a right clock."""
    return time.time() - steady()


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. Instants are seconds since 1970: all processes of a run, and its store, share the clock of one machine."""

    kind: Kind
    what: str
    """The verb of a sender, the type of a job, or the name of a fault."""
    job: str = ""
    type: str = ""
    """The type of the job that was asked for."""
    holder: str = ""
    """The job that an enqueue with a key was given."""
    parent: str = ""
    """The job whose handler asked for this one."""
    fence: int = 0
    key: str = ""
    rolled_back: bool = False
    """Asked for inside a transaction that its caller rolls back on purpose."""
    pid: int = 0
    """The process that wrote the line; of a fault, the one that it hit."""
    at: float = 0.0
    steady: float = 0.0
    detail: str = ""
    action: str = ""
    """The record of what a person did to many jobs."""
    count: int = 0
    """How many jobs a person was told to have changed."""


class HistoryDamaged(Exception):
    """A line cannot be read: then the history proves nothing."""


class History:
    """The file of one process. A line is one write to a file opened for appending: it is there whole, or not at all."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, role: str = "process") -> None:
        self._folder = Path(folder or os.environ[HOME])
        self._role = role
        self._epoch = float(os.environ[EPOCH]) if EPOCH in os.environ else epoch()
        self._pid = 0
        self._descriptor = -1
        self._on: set[str] = set()

    def write(self, kind: Kind, what: str, *, pid: int | None = None, **fields: object) -> None:
        """Append one event, with the time and the process."""
        if self._pid != os.getpid():  # the first line, or the first behind a fork
            self._pid = os.getpid()
            path = self._folder / f"{self._role}-{self._pid}.jsonl"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        whose = self._pid if pid is None else pid
        now = steady()
        event = Event(kind=kind, what=what, pid=whose, at=self._epoch + now, steady=now, **fields)  # type: ignore[arg-type]
        line = msgspec.json.encode(event) + b"\n"
        assert os.write(self._descriptor, line) == len(line)
        if kind == "fault":
            self._on.add(what)
        elif kind == "healed":
            self._on.discard(what)

    def is_on(self, fault: str) -> bool:
        """Say whether this process has broken something that it has not mended yet."""
        return fault in self._on


def read_lines(lines: Iterable[bytes], where: str = "history") -> list[Event]:
    """Give the events of one file. Raises ``HistoryDamaged``."""
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(msgspec.json.decode(line, type=Event))
        except msgspec.DecodeError as error:
            raise HistoryDamaged(f"{where}, line {number} cannot be read ({error}): {line[:80]!r}") from error
    return events


def read_histories(folder: Path) -> list[Event]:
    """Give the events of all files, by the clock that all processes of a machine share."""
    events: list[Event] = []
    for path in sorted(folder.glob("*.jsonl")):
        with open(path, "rb") as file:
            events += read_lines(file, path.name)
    return sorted(events, key=lambda event: event.steady)
