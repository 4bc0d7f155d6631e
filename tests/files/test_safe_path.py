"""Which paths are refused, and that no link leads out, not even one that is swapped in meanwhile."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from onward.errors import InvalidPayload, PermanentJobError, TransientJobError
from onward.files import CreateFile, DeleteFile, FileJobs, UnsafePath, create_file, delete_file, read_file
from onward.files.safe_path import split_path, walk_below
from onward.retry import RetryPolicy
from tests.files.runs import loose_context

REFUSED = [
    "",
    "/",
    "/etc/passwd",
    "//etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a/..",
    ".",
    "./a",
    "a/./b",
    "a//b",
    "a/",
    "a/b/",
    "nul\0byte",
    "line\nbreak",
    "tab\t",
    "del\x7f",
    "a" * 256,
    "ü" * 128,
    "/".join(["a" * 100] * 11),
    ".onward-01ARZ3NDEKTSV4RRFFQ69G5FAV-1.tmp",
    "deep/.onward-x",
    "lone\ud800surrogate",
]


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_could_leave_the_base_or_name_no_file_is_refused(path: str) -> None:
    """Every form of escape that is known, and everything that is no plain file name."""
    with pytest.raises(UnsafePath):
        split_path(path)


@pytest.mark.parametrize(
    "path", ["a", "a/b", "a b", "ä/ö.json", "...", "..a", "a..", "-rf", "C:\\x", "~", "%2e%2e/x", "a" * 255, "$HOME", "a\\..\\b"]
)
def test_a_plain_path_is_taken_as_it_is(path: str) -> None:
    """Nothing is decoded, expanded or made canonical: what looks like an escape elsewhere is only a name here."""
    assert "/".join(split_path(path)) == path


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ""])
def test_an_unsafe_path_is_refused_at_enqueue_and_never_retried(tmp_path: Path, path: str) -> None:
    """Nothing is stored at enqueue; a row that got in elsewhere is dead-lettered at its first run."""
    files = FileJobs(tmp_path)
    for definition, text in ((files.create, '{"path":%s,"content":""}'), (files.delete, '{"path":%s}')):
        with pytest.raises(InvalidPayload, match="UnsafePath") as caught:
            definition.codec.decode(text % f'"{path}"')
        assert not RetryPolicy().allows_another_try(caught.value, 1, 3)
    for kind in (lambda: CreateFile(path, "x"), lambda: DeleteFile(path)):
        with pytest.raises(UnsafePath):
            kind()


def test_a_directory_on_the_way_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """A link to elsewhere is the oldest way out of a base directory."""
    base, outside = tmp_path / "base", tmp_path / "outside"
    base.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (base / "link").symlink_to(outside)
    with pytest.raises(PermanentJobError, match="links are never followed"):
        create_file(base, "link/x", "x", loose_context())
    with pytest.raises(PermanentJobError, match="links are never followed"):
        create_file(base, "link/deeper/x", "x", loose_context())
    with pytest.raises(PermanentJobError, match="links are never followed"):
        delete_file(base, "link/precious", loose_context())
    with pytest.raises(PermanentJobError, match="links are never followed"):
        read_file(base, "link/precious")
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_a_file_on_the_way_is_refused_for_ever(tmp_path: Path) -> None:
    """Trying again cannot make a directory of a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(PermanentJobError, match="no directory"):
        create_file(tmp_path, "file/x", "x", loose_context())


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("kind", ["directory", "link", "dangling link", "pipe", "socket"])
def test_only_regular_files_are_targets(tmp_path: Path, kind: str, overwrite: bool) -> None:
    """Neither is a link followed, nor does a pipe hold the handler, nor is a directory replaced or removed."""
    target, other = tmp_path / "target", tmp_path / "other"
    other.write_text("other")
    match kind:
        case "directory":
            target.mkdir()
        case "link":
            target.symlink_to(other)
        case "dangling link":
            target.symlink_to(tmp_path / "nowhere")
        case "pipe":
            os.mkfifo(target)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(os.path.relpath(target))
    before = os.lstat(target)
    with pytest.raises(PermanentJobError, match="only regular files"):
        create_file(tmp_path, "target", "x", loose_context(), overwrite=overwrite)
    with pytest.raises(PermanentJobError, match="only regular files"):
        delete_file(tmp_path, "target", loose_context())
    with pytest.raises(PermanentJobError, match="only regular files"):
        read_file(tmp_path, "target")
    assert os.path.samestat(before, os.lstat(target))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "target"]
    assert other.read_text() == "other"


def test_a_missing_base_directory_is_worth_another_try(tmp_path: Path) -> None:
    """A disk that is not mounted yet must not be mistaken for an empty one, nor be made anew on the wrong disk."""
    with pytest.raises(TransientJobError, match="does not exist"):
        create_file(tmp_path / "gone", "x", "x", loose_context())
    with pytest.raises(TransientJobError, match="does not exist"):
        delete_file(tmp_path / "gone", "x", loose_context())
    assert not (tmp_path / "gone").exists()


def test_links_swapped_in_meanwhile_lead_nowhere(tmp_path: Path) -> None:
    """A thread turns a directory on the way, and the target, into links to the outside and back while files are written and deleted."""
    base, outside, junk = tmp_path / "base", tmp_path / "outside", tmp_path / "junk"
    base.mkdir()
    outside.mkdir()
    junk.mkdir()
    (outside / "x").write_text("precious")
    done, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not done.is_set() or swaps < 2_000:
            (base / "way").mkdir(exist_ok=True)
            (base / "way/.link").symlink_to(outside / "x")
            os.rename(base / "way/.link", base / "way/x")  # the target is a link now
            os.rename(base / "way", junk / str(swaps))
            with suppress(FileExistsError):
                (base / "way").symlink_to(outside)  # the directory on the way is a link now
                (base / "way").unlink()
            shutil.rmtree(junk / str(swaps), ignore_errors=True)
            swaps += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes = set()
    try:
        for _ in range(200):
            for call in (
                lambda: create_file(base, "way/x", "new", loose_context(), overwrite=True),
                lambda: create_file(base, "way/x", "content", loose_context()),
                lambda: delete_file(base, "way/x", loose_context()),
            ):
                try:
                    call()
                    outcomes.add("done")
                except (PermanentJobError, FileNotFoundError, FileExistsError, IsADirectoryError) as error:
                    outcomes.add(type(error).__name__)
    finally:
        done.set()
        swapper.join()
    assert swaps >= 2_000
    assert "done" in outcomes
    assert "PermanentJobError" in outcomes
    assert [path.name for path in outside.iterdir()] == ["x"]
    assert (outside / "x").read_text() == "precious"


def test_a_walk_never_enters_a_link(tmp_path: Path) -> None:
    """Reconcile and sweep see the base directory only."""
    base, outside = tmp_path / "base", tmp_path / "outside"
    (base / "deep/deeper").mkdir(parents=True)
    outside.mkdir()
    (outside / "x").write_text("")
    (base / "link").symlink_to(outside)
    (base / "deep/deeper/y").write_text("")
    assert [path for path, _, _ in walk_below(base)] == ["deep/deeper/y", "link"]
