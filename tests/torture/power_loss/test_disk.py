"""The model of the disk: what was made durable is there, of the rest any part."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.torture.power_loss.choices import KINDS, AllKept, SomeKept, Torn, choose
from tests.torture.power_loss.disk import SECTOR, Choice, Directory, File, Truncation, Write, files_of
from tests.torture.power_loss.recording import Playback


def file_with(*changes: Write | Truncation) -> File:
    file = File()
    for change in changes:
        file.change(change)
    return file


def every_content(file: File, kind: type[SomeKept]) -> set[bytes]:
    return {kind(random.Random(seed)).content(file) for seed in range(300)}


def test_what_was_not_synced_may_be_there_or_not_in_any_combination() -> None:
    file = file_with(Write(0, b"a"), Write(1, b"b"))
    assert every_content(file, SomeKept) == {b"", b"a", b"\0b", b"ab"}
    assert (Choice().content(file), AllKept().content(file)) == (b"", b"ab")


def test_what_was_synced_is_there() -> None:
    file = file_with(Write(0, b"a"))
    file.make_durable(file.done())
    file.change(Write(0, b"b"))
    assert every_content(file, SomeKept) == {b"a", b"b"}


def test_a_sync_covers_what_had_ended_before_it_began() -> None:
    """A write of another process that is under way meanwhile has no promise."""
    file, under_way = file_with(Write(0, b"a")), Write(1, b"b", is_done=False)
    file.change(under_way)
    covered = file.done()
    under_way.is_done = True
    file.make_durable(covered)
    assert Choice().content(file) == b"a"


def test_a_write_is_torn_between_sectors_only() -> None:
    file = file_with(Write(SECTOR - 1, b"a" * 2))
    assert every_content(file, Torn) == {b"", bytes(SECTOR - 1) + b"a", bytes(SECTOR) + b"a", bytes(SECTOR - 1) + b"aa"}


def test_a_truncation_is_a_change_like_any_other() -> None:
    file = file_with(Write(0, b"abc"))
    file.make_durable(file.done())
    file.change(Truncation(1))
    assert every_content(file, SomeKept) == {b"abc", b"a"}


def test_names_come_back_in_their_order() -> None:
    """None before those that came before it in the same directory."""
    root, new = Directory(), file_with(Write(0, b"new"))
    new.make_durable(new.done())
    root.change({"temporary": new})
    root.change({"temporary": None, "target": new})
    found = {tuple(files_of(root, SomeKept(random.Random(seed)))) for seed in range(50)}
    assert found == {(), (("temporary", b"new"),), (("target", b"new"),)}
    root.make_durable(list(root.pending))
    assert tuple(files_of(root, Choice())) == (("target", b"new"),)


def test_a_name_that_is_durable_says_nothing_of_the_content() -> None:
    """The file that was renamed into its place and never synced."""
    root = Directory()
    root.change({"target": file_with(Write(0, b"new"))})
    root.make_durable(list(root.pending))
    assert tuple(files_of(root, Choice())) == (("target", b""),)


@pytest.mark.parametrize("kind", KINDS)
def test_a_choice_is_the_same_for_the_same_seed(kind: str) -> None:
    """A failing case can be looked at again."""
    file = file_with(*[Write(place * SECTOR, b"x" * SECTOR) for place in range(64)])
    assert len({choose(kind, "7:store:3:1").content(file) for _ in range(3)}) == 1


HOME = "/home/it"


def hexadecimal(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def played(tmp_path: Path, *lines: str) -> Playback:
    """Play lines as strace writes them; text in <> and quotes is put into hexadecimal here."""
    trace = tmp_path / "trace"
    coded = [re.sub(r'(?<=<)(/[^>]*)(?=>)|(?<=")([^"]*)(?=")', lambda match: hexadecimal(match[0]), line) for line in lines]
    trace.write_text("\n".join(coded) + "\n")
    playback = Playback(trace, HOME)
    assert len(list(playback.points())) > 0
    return playback


def test_calls_are_read_as_strace_writes_them(tmp_path: Path) -> None:
    playback = played(
        tmp_path,
        '7 openat(AT_FDCWD</work>, "/home/it/a", O_RDWR|O_CREAT, 0600) = 3</home/it/a>',
        '7 pwrite64(3</home/it/a>, "xyz", 3, 2) = 3',
        "7 fdatasync(3</home/it/a>) = 0",
        '7 mkdirat(4</home/it>, "new", 0777) = 0',
        '7 linkat(4</home/it>, "a", 4</home/it>, "b", 0) = 0',
        '7 unlinkat(4</home/it>, "a", 0) = 0',
        '7 rename("/home/it/b", "/home/it/c") = 0',
        '7 unlink("/home/it/missing") = -1 ENOENT (No such file or directory)',
        '7 pwrite64(5</home/it/a-shm>, "x", 1, 0) = 1',
        '7 pwrite64(6</elsewhere/it>, "x", 1, 0) = 1',
    )
    assert tuple(files_of(playback.root, AllKept())) == (("c", b"\0\0xyz"), ("new", None))
    assert tuple(files_of(playback.root, Choice())) == ()


def test_two_processes_are_told_apart_where_their_calls_overlap(tmp_path: Path) -> None:
    """The write of the second began after the fsync of the first, and so is not covered by it."""
    playback = played(
        tmp_path,
        '7 openat(AT_FDCWD</work>, "/home/it/a", O_RDWR|O_CREAT, 0600) = 3</home/it/a>',
        "7 fsync(4</home/it>) = 0",
        '7 pwrite64(3</home/it/a>, "x", 1, 0) = 1',
        "7 fdatasync(3</home/it/a> <unfinished ...>",
        '8 pwrite64(3</home/it/a>, "y", 1, 1 <unfinished ...>',
        "7 <... fdatasync resumed>) = 0",
        "8 <... pwrite64 resumed>) = 1",
    )
    assert tuple(files_of(playback.root, Choice())) == (("a", b"x"),)
    assert tuple(files_of(playback.root, AllKept())) == (("a", b"xy"),)


def test_what_was_said_counts_from_the_moment_it_was_begun(tmp_path: Path) -> None:
    """Whoever reads it may act on it before the call has ended."""
    playback = played(tmp_path, '7 write(1</pipe>, "is job:a queued", 15 <unfinished ...>')
    assert playback.said.allowed("job", "a") == ["queued"]
