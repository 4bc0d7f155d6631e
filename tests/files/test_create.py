"""``create_file``: whole or not at all, in an order that survives a crash, and only by the newest claim."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.context import JobContext
from onward.errors import LeaseLost, OnwardError, PermanentJobError, TransactionTooLong, TransientJobError
from onward.files import create_file, delete_file
from onward.files.order import one_at_a_time
from onward.files.temporary import Temporary
from tests.files.runs import loose_context


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_the_directories_on_its_way(tmp_path: Path) -> None:
    """The plain case, and nothing of ours stays behind."""
    context = loose_context()
    create_file(tmp_path, "a/b/c.txt", "Grüße\n", context)
    assert (tmp_path / "a/b/c.txt").read_text(encoding="utf-8") == "Grüße\n"
    assert context.completed_in_transaction
    assert names(tmp_path / "a/b") == ["c.txt"]


def test_every_step_is_durable_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the old or the new file is there, and never a completed job without its file."""
    steps: list[str] = []

    def watch(name: str, tell: object = None) -> None:
        real = getattr(os, name)

        def call(*args: object, **kwargs: object) -> object:
            kind = "directory" if name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode) else ""  # type: ignore[call-overload]
            steps.append(f"{name} {kind}".strip())
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("mkdir", "write", "fsync", "replace", "link", "unlink"):
        watch(name)
    context = loose_context(before=lambda: steps.append("claim checked"))
    create_file(tmp_path, "new/x", "content", context, overwrite=True)
    durable_directory = ["mkdir", "fsync directory"]
    assert steps[:-1] == [*durable_directory, "write", "fsync", "claim checked", "replace", "fsync directory"]
    assert steps[-1] == "unlink"  # of a temporary file that is gone by then
    steps.clear()
    create_file(tmp_path, "new/y", "content", loose_context(before=lambda: steps.append("claim checked")))
    assert steps[:-1] == [*durable_directory, "write", "fsync", "claim checked", "link", "unlink", "fsync directory"]
    steps.clear()
    create_file(tmp_path, "new/y", "content", loose_context(before=lambda: steps.append("claim checked")))
    assert steps[:-1] == [*durable_directory, "claim checked", "fsync", "fsync directory"]


def test_the_same_content_is_success_and_is_not_written_again(tmp_path: Path) -> None:
    """A job that runs twice does nothing the second time."""
    create_file(tmp_path, "x", "content", loose_context())
    before = os.stat(tmp_path / "x")
    for overwrite in (False, True):
        context = loose_context()
        create_file(tmp_path, "x", "content", context, overwrite=overwrite)
        assert context.completed_in_transaction
    after = os.stat(tmp_path / "x")
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_other_content_is_refused_by_the_placing_itself(tmp_path: Path) -> None:
    """Also when the other file appears between the look and the placing."""
    (tmp_path / "x").write_text("old")
    with pytest.raises(PermanentJobError, match="exists with other content: pass overwrite=True"):
        create_file(tmp_path, "x", "new", loose_context())
    with pytest.raises(PermanentJobError, match="exists with other content"):
        create_file(tmp_path, "y", "new", loose_context(before=lambda: (tmp_path / "y").write_text("theirs")))
    assert (tmp_path / "x").read_text() == "old"
    assert (tmp_path / "y").read_text() == "theirs"
    assert names(tmp_path) == ["x", "y"]


def test_a_file_that_appears_at_the_last_moment_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap between a check and a rename is where files are lost; a link has no such gap."""
    real = os.link

    def appear(source: str, target: str, **options: object) -> None:
        (tmp_path / target).write_text(content)
        real(source, target, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", appear)
    content = "theirs"
    with pytest.raises(PermanentJobError, match="exists with other content"):
        create_file(tmp_path, "x", "new", loose_context())
    assert (tmp_path / "x").read_text() == "theirs"
    content = "new"
    create_file(tmp_path, "y", "new", loose_context())
    assert names(tmp_path) == ["x", "y"]


def test_the_content_is_right_although_the_file_changed_before_the_claim_was_checked(tmp_path: Path) -> None:
    """It looked as if nothing had to be written; by the time of placing it had."""
    (tmp_path / "x").write_text("new")
    create_file(tmp_path, "x", "new", loose_context(before=lambda: (tmp_path / "x").write_text("changed")), overwrite=True)
    assert (tmp_path / "x").read_text() == "new"
    assert names(tmp_path) == ["x"]


@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_mode_of_the_umask_and_a_replaced_one_keeps_its_own(tmp_path: Path) -> None:
    """Readers do not lose access, and nobody gains it; set-user-id is never handed on to content from a queue."""
    create_file(tmp_path, "deep/x", "1", loose_context())
    assert stat.S_IMODE(os.stat(tmp_path / "deep/x").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(tmp_path / "deep").st_mode) == 0o750
    for old, new in ((0o644, 0o644), (0o600, 0o600), (0o4755, 0o755)):
        os.chmod(tmp_path / "deep/x", old)
        create_file(tmp_path, "deep/x", f"content {old}", loose_context(), overwrite=True)
        assert stat.S_IMODE(os.stat(tmp_path / "deep/x").st_mode) == new


def test_a_lost_lease_places_nothing(tmp_path: Path) -> None:
    """A worker that slept through its lease must not put its old content over the newer one."""
    (tmp_path / "x").write_text("newer")
    with pytest.raises(LeaseLost):
        create_file(tmp_path, "x", "older", loose_context(lost=True), overwrite=True)
    assert (tmp_path / "x").read_text() == "newer"
    assert names(tmp_path) == ["x"]


def test_a_context_without_a_store_is_refused(tmp_path: Path) -> None:
    """Without the check of the claim the promise would be empty: no silent fallback."""
    with pytest.raises(OnwardError, match="no store"):
        create_file(tmp_path, "x", "content", JobContext(loose_context().job))
    assert names(tmp_path) == []


def test_a_condition_inside_the_transaction_can_leave_the_file_alone(tmp_path: Path) -> None:
    """The job completes; whether the file is touched is decided where nothing can come between."""
    asked, connection = [], object()
    context = loose_context(connection=connection)
    create_file(tmp_path, "x", "content", context, only_if=lambda given: bool(asked.append(given)))
    assert asked == [connection]
    assert context.completed_in_transaction
    assert names(tmp_path) == []


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "link"])
def test_the_temporary_file_goes_on_every_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A full disk at any step leaves the target untouched and nothing else behind."""
    (tmp_path / "x").write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space left"):
            create_file(tmp_path, "y" if call == "link" else "x", "new", loose_context(), overwrite=call != "link")
    assert (tmp_path / "x").read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_short_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write may take less than it was given."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:3]))
    create_file(tmp_path, "x", "a long content", loose_context())
    assert (tmp_path / "x").read_text() == "a long content"


def test_a_file_system_without_links_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems cannot place without replacing; pretending would lose files."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(PermanentJobError, match="without hard links"):
        create_file(tmp_path, "x", "content", loose_context())
    assert names(tmp_path) == []


def test_each_descriptor_is_closed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second close would hit a number that another thread has been given meanwhile."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    done = threading.Event()
    problems: list[BaseException] = []

    def open_and_close() -> None:
        while not done.is_set():
            try:
                descriptor = os.open(os.devnull, os.O_RDONLY)
                os.read(descriptor, 1)
                os.close(descriptor)
            except OSError as error:
                problems.append(error)

    before = len(os.listdir("/dev/fd"))
    threads = [threading.Thread(target=open_and_close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(60):
        with pytest.raises(OSError, match="Input/output"):
            create_file(tmp_path, f"deep/{number}", "content", loose_context(), overwrite=True)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert names(tmp_path / "deep") == []
    assert len(os.listdir("/dev/fd")) == before


def test_a_rerun_removes_what_its_killed_predecessor_left(tmp_path: Path) -> None:
    """And only that: another job's file, and a stranger's with a similar name, stay."""
    context = loose_context(fence=3)
    mine, foreign = Temporary(context.job.id, 2, "tmp").name, Temporary(loose_context().job.id, 2, "tmp").name
    for name in (mine, foreign, ".onward-notes.tmp"):
        (tmp_path / name).write_text("half")
    create_file(tmp_path, "x", "content", context)
    assert names(tmp_path) == sorted([foreign, ".onward-notes.tmp", "x"])


def test_tmpdir_elsewhere_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary file lies beside its target, so placing never crosses a file system."""
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    seen = []
    context = loose_context(before=lambda: seen.extend(names(tmp_path / "deep")))
    create_file(tmp_path, "deep/x", "content", context)
    assert seen == [Temporary(context.job.id, 1, "tmp").name]


def test_only_one_job_places_in_a_directory_at_a_time(tmp_path: Path) -> None:
    """A transaction that the store ended for taking too long must not let a newer job place before the older one is through."""
    inside, overlaps = threading.Lock(), []

    def is_alone(_: object) -> bool:
        if not inside.acquire(blocking=False):
            overlaps.append("two at once")
            return True
        os.sched_yield()
        inside.release()
        return True

    def write(number: int) -> None:
        create_file(tmp_path, f"{number % 3}", str(number), loose_context(), only_if=is_alone, overwrite=True)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []
    assert names(tmp_path) == ["0", "1", "2"]


def test_a_stopped_neighbour_does_not_stop_us_for_ever(tmp_path: Path) -> None:
    """Whoever holds the directory too long makes others try later, not hang."""
    first, second = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path, os.O_RDONLY)
    try:
        with one_at_a_time(first, None), pytest.raises(TransientJobError, match="holds the target's directory"):
            one_at_a_time(second, None, longest_wait=0.01).__enter__()
        with one_at_a_time(second, None):
            pass
    finally:
        os.close(first)
        os.close(second)


class OverdueConnection:
    """A connection whose transaction the store has ended."""

    def execute(self, sql: str) -> None:
        raise TransactionTooLong("it was rolled back")


def test_a_transaction_that_the_store_has_ended_places_nothing(tmp_path: Path) -> None:
    """By now another claim may be the newest, and may have placed its file already."""
    (tmp_path / "x").write_text("newer")
    for call in (
        lambda: create_file(tmp_path, "x", "older", loose_context(connection=OverdueConnection()), overwrite=True),
        lambda: create_file(tmp_path, "y", "older", loose_context(connection=OverdueConnection())),
        lambda: delete_file(tmp_path, "x", loose_context(connection=OverdueConnection())),
    ):
        with pytest.raises(TransactionTooLong):
            call()
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_text() == "newer"
