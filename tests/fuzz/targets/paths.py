"""Paths of file jobs: whatever they say, nothing outside the base directory is read, made, changed or removed."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from hypothesis import strategies as st

from onward.errors import OnwardError
from onward.files.create import create_file
from onward.files.delete import delete_file
from onward.files.safe_path import UnsafePath, read_file, split_path
from tests.files.runs import loose_context
from tests.fuzz.target import Target, as_bytes, as_text, declared, must

CONTENT = "new"
PRECIOUS = "precious"


class Room:
    """A base directory with ways out of it, and what must stay as it is outside. Made once, and mended after each input."""

    def __init__(self) -> None:
        shared = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="onward-fuzz-", dir=shared if os.access(shared, os.W_OK) else None))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.base, self.outside = self.folder / "base", self.folder / "outside"
        self.outside.mkdir()
        (self.outside / "x").write_text(PRECIOUS)
        self.renew()

    def renew(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)
        (self.base / "deep").mkdir(parents=True)
        (self.base / "way").symlink_to(self.outside)
        (self.base / "deep/x").symlink_to(self.outside / "x")
        (self.base / "file").write_text("old")
        os.mkfifo(self.base / "pipe")
        self.entries = self._look()

    def must_be_whole(self) -> None:
        must((self.outside / "x").read_text() == PRECIOUS, "a file outside was written")
        must([one.name for one in self.outside.iterdir()] == ["x"], "something was made or removed outside")
        must({one.name for one in self.folder.iterdir()} == {"base", "outside"}, "something was made beside the base")

    def has_changed(self) -> bool:
        return self._look() != self.entries

    def _look(self) -> set[tuple[str, bool]]:
        return {(one.name, one.is_symlink()) for folder in (self.base, self.base / "deep") for one in folder.iterdir()}


_rooms: list[Room] = []


def check(data: bytes) -> None:
    path = as_text(data)
    with declared(UnsafePath, longest=1000):
        parts = split_path(path)
        must("/".join(parts) == path and not any(part in ("", ".", "..") for part in parts), "a part that is none")
        must(not path.startswith("/") and "\0" not in path, "a path that leads elsewhere")
    if not _rooms:
        _rooms.append(Room())
    room = _rooms[0]
    before = (room.base / "file").read_text()
    with declared(OnwardError, FileNotFoundError):
        create_file(room.base, path, CONTENT, loose_context(), overwrite=len(path) % 2 == 0)
        must(read_file(room.base, path) == CONTENT.encode(), "what was written is not there")
        delete_file(room.base, path, loose_context())
        must(read_file(room.base, path) is None, "what was deleted is still there")
    room.must_be_whole()
    if room.has_changed() or not (room.base / "file").exists() or (room.base / "file").read_text() != before:
        room.renew()


_parts = st.sampled_from(
    ["..", ".", "", "a", "way", "deep", "x", "file", "pipe", "~", "..\\", "%2e%2e", "．．", ".onward-x", "\0", "b" * 255, "b" * 256]
)

TARGET = Target(
    "paths",
    check,
    st.lists(_parts | st.text(max_size=4), min_size=1, max_size=8).map(lambda parts: as_bytes("/".join(parts))),
    ("../", "way/", "deep/", "x", "file", "pipe", ".onward-", "./", "//"),
)
