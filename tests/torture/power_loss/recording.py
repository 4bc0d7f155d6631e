"""A recorded program, played back onto a model of the disk, one system call after the other.

A write counts from the moment it begins, an fsync from the moment it has ended and for the writes that had ended before it began, and
what the program says from the moment it begins to say it. So a state is never better than what a disk could hold at that moment.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from tests.torture.power_loss.disk import Directory, File, Truncation, Write
from tests.torture.promises import Said
from tests.torture.traced import NAMES, SYNCS, WRITES, Call, read_calls

RECORDED = (*WRITES, *SYNCS, *NAMES)
_ARGUMENT = re.compile(r'"(?P<text>(?:\\x..)*)"|(?P<fd>\d+|AT_FDCWD)<(?P<path>(?:\\x..)*)>(?P<gone>!)?|(?P<word>[^, "<>()]+)')
_RESULT = re.compile(r"\) += (-?\d+|\?)")

Finish: TypeAlias = Callable[[int], object]
"""What a call does once its result is known."""


class Descriptor(Struct, frozen=True):
    """An open file as an argument."""

    number: str
    path: str
    is_deleted: bool


Arguments: TypeAlias = list[Descriptor | bytes | str]


class Playback:
    """The disk and what was said, after each call of a recording that began with an empty directory ``home``."""

    def __init__(self, trace: Path, home: str) -> None:
        self.root = Directory()
        self.said = Said()
        self._calls = read_calls(trace)
        self._home = home
        self._begun: dict[int, Finish | None] = {}

    def points(self) -> Iterator[int]:
        """Play one call after the other; yields the number of each one that mattered, from 1."""
        number = 0
        for call in self._calls:
            if call.name in RECORDED and self._play(call):
                number += 1
                yield number

    def _play(self, call: Call) -> bool:
        if call.begins:
            self._begun[call.pid] = self._begin(call.name, _arguments(call.text))
        finish = self._begun.get(call.pid)
        if call.ends:
            self._begun.pop(call.pid, None)
            if finish is not None and (result := _RESULT.search(call.text)) and result[1] != "?":
                finish(int(result[1]))
        return finish is not None

    def _begin(self, name: str, arguments: Arguments) -> Finish | None:
        """Do what a call does at once, and give what it does at its end; None when it is none of ours."""
        if name in ("write", "pwrite64"):
            return self._write(arguments)
        if name == "ftruncate":
            return self._truncate(arguments)
        if name in ("fsync", "fdatasync"):
            return self._sync(arguments)
        if name in NAMES:
            return self._rename(name, arguments)
        if self._ours(_descriptor(arguments)):
            raise NotImplementedError(f"the model of the disk does not know {name}")
        return None

    # -- content -------------------------------------------------------------------------------------------------------

    def _write(self, arguments: Arguments) -> Finish | None:
        to, data = _descriptor(arguments), arguments[1]
        assert isinstance(data, bytes)
        if to.number == "1":
            for line in data.decode().splitlines():
                self.said.add(line)
            return _nothing_more
        file = self._file(to)
        if file is None:
            return None
        # Without a place it goes to the end: whatever writes so here writes a new file.
        change = Write(int(str(arguments[3])) if len(arguments) > 3 else file.size, data, is_done=False)
        file.change(change)

        def finish(result: int) -> None:
            assert result == len(data), f"a write of {len(data)} bytes wrote {result}"
            change.is_done = True

        return finish

    def _truncate(self, arguments: Arguments) -> Finish | None:
        file = self._file(_descriptor(arguments))
        if file is None:
            return None
        change = Truncation(int(str(arguments[1])), is_done=False)
        file.change(change)

        def finish(result: int) -> None:
            change.is_done = True

        return finish

    def _sync(self, arguments: Arguments) -> Finish | None:
        of = _descriptor(arguments)
        path = self._ours(of)
        if path is None:
            return None
        found = self._find(path)
        if isinstance(found, Directory):
            names, directory = list(found.pending), found
            return lambda result: directory.make_durable(names) if result == 0 else None
        if found is None:
            return None
        done, file = found.done(), found
        return lambda result: file.make_durable(done) if result == 0 else None

    # -- names ---------------------------------------------------------------------------------------------------------

    def _rename(self, name: str, arguments: Arguments) -> Finish | None:
        paths = [path for path in _paths(arguments) if self._inside(path)]
        if not paths or paths[-1].endswith("-shm"):
            return None
        if name == "openat":
            flags = str(next(one for one in arguments if isinstance(one, str)))
            return self._open(paths[0], flags) if "O_CREAT" in flags or "O_TRUNC" in flags else None
        verbs: dict[str, Callable[[], None]] = {
            "mkdir": lambda: self._change({paths[0]: Directory()}),
            "unlink": lambda: self._change({paths[0]: None}),
            "link": lambda: self._change({paths[1]: self._find(paths[0])}),
            "rename": lambda: self._change({paths[0]: None, paths[1]: self._find(paths[0])}),
        }
        verb = verbs[name.removesuffix("2").removesuffix("at")]
        return lambda result: verb() if result >= 0 else None

    def _open(self, path: str, flags: str) -> Finish:
        def finish(result: int) -> None:
            found = self._find(path)
            if result >= 0 and found is None:
                self._change({path: File()})
            elif result >= 0 and "O_TRUNC" in flags and isinstance(found, File):
                found.change(Truncation(0))

        return finish

    def _change(self, changes: dict[str, File | Directory | None]) -> None:
        above = {posixpath.dirname(path) for path in changes}
        if len(above) > 1:
            raise NotImplementedError("the model of the disk does not rename from one directory to another")
        directory = self._find(above.pop())
        assert isinstance(directory, Directory)
        directory.change({posixpath.basename(path): found for path, found in changes.items()})

    # -- finding -------------------------------------------------------------------------------------------------------

    def _inside(self, path: str) -> bool:
        return path == self._home or path.startswith(f"{self._home}/")

    def _ours(self, descriptor: Descriptor) -> str | None:
        # The index of the log is made anew after a crash; and what has no name any more cannot be found again.
        is_ours = self._inside(descriptor.path) and not descriptor.is_deleted and not descriptor.path.endswith("-shm")
        return descriptor.path if is_ours else None

    def _file(self, descriptor: Descriptor) -> File | None:
        path = self._ours(descriptor)
        found = None if path is None else self._find(path)
        return found if isinstance(found, File) else None

    def _find(self, path: str) -> File | Directory | None:
        found: File | Directory | None = self.root
        for part in path[len(self._home) :].split("/"):
            if part:
                found = found.names.get(part) if isinstance(found, Directory) else None
        return found


def _arguments(text: str) -> Arguments:
    """Read what stands between the brackets. Text and paths are in hexadecimal, so none of it looks like a bracket."""
    inside = text.replace("(deleted)", "!").removesuffix(" <unfinished ...>").strip().removeprefix("(").partition(")")[0]
    found: Arguments = []
    for match in _ARGUMENT.finditer(inside):
        if match["word"] is not None:
            found.append(match["word"])
        elif match["text"] is not None:
            found.append(_bytes(match["text"]))
        else:
            found.append(Descriptor(match["fd"], _bytes(match["path"]).decode(), match["gone"] is not None))
    return found


def _paths(arguments: Arguments) -> list[str]:
    """The paths of a call, each below the directory that was given with it."""
    paths, directory = [], ""
    for argument in arguments:
        if isinstance(argument, Descriptor):
            directory = argument.path
        elif isinstance(argument, bytes):
            paths.append(posixpath.normpath(posixpath.join(directory, argument.decode())))
    return paths


def _descriptor(arguments: Arguments) -> Descriptor:
    first = arguments[0]
    assert isinstance(first, Descriptor)
    return first


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _nothing_more(result: int) -> None:
    """What was said was said when it began."""
