"""What is on disk when the power goes: all that was made durable, and of the rest any part.

Of a file the writes and truncations since its last fsync are *pending*: each may be there or not, in any combination, and of a write
only some sectors. Of a directory the names that were added, replaced or removed since its own fsync are pending: they come back in
their order, so the first few of them are there, or all, or none. Directories do not wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

SECTOR = 512
"""Bytes that a disk writes whole or not at all."""


class Write(Struct):
    """Bytes at a place."""

    offset: int
    data: bytes
    is_done: bool = True

    def apply(self, content: bytearray) -> None:
        _put(content, self.offset, self.data)

    def apply_sectors(self, content: bytearray, is_kept: Callable[[], bool]) -> None:
        """Write only some of the sectors, as a disk does that loses power in the middle."""
        at, end = self.offset, self.offset + len(self.data)
        while at < end:
            upto = min((at // SECTOR + 1) * SECTOR, end)
            if is_kept():
                _put(content, at, self.data[at - self.offset : upto - self.offset])
            at = upto


class Truncation(Struct):
    """A file gets this size."""

    size: int
    is_done: bool = True

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))

    def apply_sectors(self, content: bytearray, is_kept: Callable[[], bool]) -> None:
        """It has no parts."""
        if is_kept():
            self.apply(content)


class File:
    """A file, under whatever names."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[Write | Truncation] = []
        self.size = 0

    def change(self, change: Write | Truncation) -> None:
        self.pending.append(change)
        self.size = change.size if isinstance(change, Truncation) else max(self.size, change.offset + len(change.data))

    def done(self) -> list[Write | Truncation]:
        """What an fsync that begins now is going to make durable."""
        return [change for change in self.pending if change.is_done]

    def make_durable(self, changes: list[Write | Truncation]) -> None:
        chosen = {id(change) for change in changes}
        for change in self.pending:
            if id(change) in chosen:
                change.apply(self.durable)
        self.pending = [change for change in self.pending if id(change) not in chosen]


class Directory:
    """Names, and what they stand for. None in a pending change: the name is gone."""

    def __init__(self) -> None:
        self.names: dict[str, File | Directory] = {}
        self.durable: dict[str, File | Directory] = {}
        self.pending: list[dict[str, File | Directory | None]] = []

    def change(self, names: dict[str, File | Directory | None]) -> None:
        self.pending.append(names)
        _rename(self.names, names)

    def make_durable(self, changes: list[dict[str, File | Directory | None]]) -> None:
        """Those of the pending changes that were there when the fsync began."""
        chosen = {id(change) for change in changes}
        for change in self.pending:
            if id(change) in chosen:
                _rename(self.durable, change)
        self.pending = [change for change in self.pending if id(change) not in chosen]


class Choice:
    """Decides what of the pending is there. This one: nothing."""

    def content(self, file: File) -> bytes:
        """What a file holds after the power came back."""
        content = bytearray(file.durable)
        for change in file.pending:
            self.keep(change, content)
        return bytes(content)

    def names(self, directory: Directory) -> dict[str, File | Directory]:
        """What a directory holds."""
        names = dict(directory.durable)
        for change in directory.pending[: self.how_many(len(directory.pending))]:
            _rename(names, change)
        return names

    def keep(self, change: Write | Truncation, content: bytearray) -> None:
        """Apply a pending change, or part of it."""

    def how_many(self, pending: int) -> int:
        """How many of the pending changes of a directory, in their order."""
        return 0


def files_of(directory: Directory, choice: Choice, above: str = "") -> Iterator[tuple[str, bytes | None]]:
    """Every path there is after the power came back, with its content; None for a directory, which comes before what is in it."""
    for name, found in sorted(choice.names(directory).items()):
        if isinstance(found, File):
            yield above + name, choice.content(found)
        else:
            yield above + name, None
            yield from files_of(found, choice, f"{above}{name}/")


def has_pending(directory: Directory) -> bool:
    """Whether there is anything to choose."""
    if directory.pending:
        return True
    return any(bool(found.pending) if isinstance(found, File) else has_pending(found) for found in directory.names.values())


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _rename(names: dict[str, File | Directory], change: dict[str, File | Directory | None]) -> None:
    for name, found in change.items():
        if found is None:
            names.pop(name, None)
        else:
            names[name] = found
