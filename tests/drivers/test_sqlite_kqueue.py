"""File events on macOS and the BSDs, told by a kernel's queue: here a stand-in for it, which looks at the real files."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onward.drivers.sqlite.file_events import FileEvents, Kqueue, watch

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing tells here what a descriptor is open on")


@dataclass
class Kernel:
    """What ``select`` has on those systems, as far as file events go, with the numbers that they have there."""

    KQ_FILTER_VNODE = -4
    KQ_EV_ADD, KQ_EV_CLEAR = 0x1, 0x20
    KQ_NOTE_DELETE, KQ_NOTE_WRITE, KQ_NOTE_EXTEND, KQ_NOTE_RENAME = 0x1, 0x2, 0x4, 0x20
    queues: list[Queue] = field(default_factory=list)

    def kqueue(self) -> Queue:
        self.queues.append(Queue())
        return self.queues[-1]

    def kevent(self, ident: int, filter: int, flags: int, fflags: int) -> SimpleNamespace:
        return SimpleNamespace(ident=ident, filter=filter, flags=flags, fflags=fflags)


class Queue:
    """Tells of a descriptor what has happened since the last time, and of that only what was asked for."""

    def __init__(self) -> None:
        self.registrations = 0
        self._watched: dict[int, SimpleNamespace] = {}
        self._before: dict[int, Look] = {}
        self._descriptor = os.open(os.devnull, os.O_RDONLY)

    def control(self, changes: Sequence[Any] | None, most: int, timeout: float | None = None) -> list[SimpleNamespace]:
        for change in changes or ():
            if not change.flags & Kernel.KQ_EV_ADD:
                raise OSError(errno.ENOENT, "this is not watched")
            self.registrations += 1
            self._watched[change.ident], self._before[change.ident] = change, Look.at(change.ident)
        events = [event for event in map(self._look, list(self._watched)) if event is not None][:most]
        assert events or most == 0 or timeout == 0, "it would wait"
        return events

    def _look(self, descriptor: int) -> SimpleNamespace | None:
        asked = self._watched[descriptor]
        try:
            now = Look.at(descriptor)
        except OSError:  # closed, which ends the watch
            del self._watched[descriptor]
            return None
        happened = now.since(self._before[descriptor]) & asked.fflags
        if asked.flags & Kernel.KQ_EV_CLEAR:
            self._before[descriptor] = now
        return SimpleNamespace(ident=descriptor, fflags=happened) if happened else None

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(frozen=True)
class Look:
    size: int
    names: frozenset[str]
    links: int
    place: str

    @classmethod
    def at(cls, descriptor: int) -> Look:
        found, place = os.fstat(descriptor), os.readlink(f"/proc/self/fd/{descriptor}")
        is_folder = os.path.isdir(place)
        names = frozenset(os.listdir(place) if is_folder else ())
        return cls(0 if is_folder else found.st_size, names, found.st_nlink, place.removesuffix(" (deleted)"))

    def since(self, before: Look) -> int:
        notes = {
            Kernel.KQ_NOTE_WRITE: (self.size, self.names) != (before.size, before.names),
            Kernel.KQ_NOTE_EXTEND: self.size > before.size,
            Kernel.KQ_NOTE_DELETE: self.links == 0 < before.links,
            Kernel.KQ_NOTE_RENAME: self.place != before.place,
        }
        return sum(note for note, has_happened in notes.items() if has_happened)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The kernel of a system that is not Linux."""
    kernel = Kernel()
    monkeypatch.setattr("onward.drivers.sqlite.file_events.select", kernel)
    monkeypatch.setattr("onward.drivers.sqlite.file_events.sys", SimpleNamespace(platform="darwin"))
    return kernel


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"page")
    return path


@pytest.fixture
def log(path: Path) -> Path:
    return path.with_name("jobs.db-wal")


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def watched(path: Path) -> FileEvents:
    events = watch(path)
    assert isinstance(events, Kqueue)
    return events


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_write_to_the_file_or_its_log_is_told_once(kernel: Kernel, path: Path, log: Path) -> None:
    """A worker looks at the database for each event: it must hear of every commit, and rest between them."""
    log.write_bytes(b"frame")
    events = watched(path)
    assert not events.drain()
    for written in (path, log):
        append(written)
        assert events.drain(), written
        assert not events.drain(), written
    assert kernel.queues[0].registrations == 3  # one that was ended and made anew would miss what happens in between
    events.close()


def test_a_log_that_appears_is_watched_from_then_on(kernel: Kernel, path: Path, log: Path) -> None:
    """The last connection that closes deletes the log, and the next commit makes a new one."""
    events = watched(path)
    for _ in range(2):
        log.write_bytes(b"frame")
        assert events.drain()
        append(log)
        assert events.drain()
        log.unlink()
        assert events.drain()
        assert not events.drain()
    events.close()


def test_a_log_that_was_made_anew_between_two_looks_is_the_one_that_is_watched(kernel: Kernel, path: Path, log: Path) -> None:
    """Its name is there before and after, and it is another file; the descriptor of the old one would never tell of anything again."""
    log.write_bytes(b"frame")
    events, before = watched(path), open_files()
    log.unlink()
    log.write_bytes(b"frame")
    assert events.drain()
    append(log)
    assert events.drain()
    assert not events.drain()
    assert open_files() == before
    events.close()


def test_a_database_that_was_moved_away_is_followed_by_name(kernel: Kernel, path: Path) -> None:
    """A backup that is put in its place is what the store opens next."""
    events, before = watched(path), open_files()
    path.rename(path.with_name("old.db"))
    path.write_bytes(b"page")
    assert events.drain()
    append(path)
    assert events.drain()
    append(path.with_name("old.db"))
    assert not events.drain()
    assert open_files() == before
    events.close()


def test_what_is_waited_for_is_the_kernel_s_queue(kernel: Kernel, path: Path) -> None:
    """``select`` is asked for its number, beside a pipe."""
    events = watched(path)
    assert events.fileno() == kernel.queues[0].fileno()
    events.close()


def test_closing_leaves_nothing_open_and_may_come_twice(kernel: Kernel, path: Path, log: Path) -> None:
    """A number that is closed again may be somebody else's file by then."""
    log.write_bytes(b"frame")
    before = open_files()
    events = watched(path)
    assert open_files() == before + 4
    events.close()
    assert open_files() == before
    events.close()


def test_a_kernel_without_a_queue_left_is_polled(kernel: Kernel, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No events are no error."""

    def refuse() -> Queue:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(kernel, "kqueue", refuse)
    assert watch(path) is None
