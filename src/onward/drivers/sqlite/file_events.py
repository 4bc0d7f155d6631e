"""Tells when a SQLite file was written: inotify on Linux, kqueue on macOS (untested there), nothing elsewhere."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from pathlib import Path
from typing import Any, Protocol

MODIFY, MOVED_TO, CREATE, IGNORED, OVERFLOW = 0x2, 0x80, 0x100, 0x8000, 0x4000
NONBLOCK, CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_HEADER = struct.Struct("iIII")


class FileEvents(Protocol):
    """A descriptor that becomes readable when one of the database's files may have changed."""

    def fileno(self) -> int: ...

    def drain(self) -> bool:
        """Read what is there. True when it concerned the database."""
        ...

    def close(self) -> None: ...


def watch(path: Path) -> FileEvents | None:
    """Watch the database at ``path``. None where the system has no such events, or no more of them: then one polls."""
    try:
        if sys.platform.startswith("linux"):
            return Inotify(path)
        if hasattr(select, "kqueue"):
            return Kqueue(path)
    except (OSError, AttributeError):
        return None
    return None


class Inotify:
    """The log and the file each have a watch of their own; the directory's only tells when one of them appears.

    A watch on what happens in the directory would wake for every file that an application writes beside its database.
    """

    def __init__(self, path: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._path = path.absolute()
        self._names = {self._path.name.encode(), self._path.name.encode() + b"-wal"}
        self._descriptor: int = self._libc.inotify_init1(NONBLOCK | CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify is not available")
        self._files: set[int] = set()
        if self._add(self._path.parent, CREATE | MOVED_TO) < 0:
            self.close()
            raise OSError(ctypes.get_errno(), "the directory cannot be watched")
        self._watch_files()

    def _add(self, path: Path, mask: int) -> int:
        return int(self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask))

    def _watch_files(self) -> None:
        for name in self._names:
            found = self._add(self._path.parent / os.fsdecode(name), MODIFY)
            if found >= 0:
                self._files.add(found)

    def fileno(self) -> int:
        return self._descriptor

    def drain(self) -> bool:
        concerned = False
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                return concerned
            position = 0
            while position < len(data):
                number, mask, _, length = _HEADER.unpack_from(data, position)
                name = data[position + _HEADER.size : position + _HEADER.size + length].rstrip(b"\0")
                position += _HEADER.size + length
                if mask & IGNORED:
                    self._files.discard(number)
                elif mask & OVERFLOW or number in self._files:
                    concerned = True
                elif name in self._names:
                    self._watch_files()
                    concerned = True

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Kqueue:
    """The same on macOS and the BSDs. Tested with a stand-in for their kernel, not there; the poll behind it finds what it misses."""

    def __init__(self, path: Path) -> None:
        kernel: Any = select
        self._kernel = kernel
        self._path = path.absolute()
        self._queue = kernel.kqueue()
        self._open: dict[str, int] = {}
        self._watch_files()

    def _watch_files(self) -> None:
        for name in (str(self._path), f"{self._path}-wal", str(self._path.parent)):
            if name in self._open:
                continue
            try:
                descriptor = os.open(name, os.O_RDONLY)
            except OSError:
                continue
            self._open[name] = descriptor
            kernel = self._kernel
            flags = kernel.KQ_NOTE_WRITE | kernel.KQ_NOTE_EXTEND | kernel.KQ_NOTE_DELETE | kernel.KQ_NOTE_RENAME
            event = kernel.kevent(descriptor, kernel.KQ_FILTER_VNODE, kernel.KQ_EV_ADD | kernel.KQ_EV_CLEAR, flags)
            self._queue.control([event], 0)

    def fileno(self) -> int:
        return int(self._queue.fileno())

    def drain(self) -> bool:
        events = self._queue.control(None, 64, 0)
        gone = self._kernel.KQ_NOTE_DELETE | self._kernel.KQ_NOTE_RENAME
        for event in events:
            if event.fflags & gone:
                for name, descriptor in list(self._open.items()):
                    if descriptor == event.ident:
                        os.close(self._open.pop(name))
        self._watch_files()
        return bool(events)

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        self._queue.close()
