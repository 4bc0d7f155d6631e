"""Reconcile says what differs between completed jobs and the disk, once each, and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from onward.clock import FakeClock
from onward.driver import Store
from onward.drivers import connect
from onward.files import CreateFile, DeleteFile, FileJobs, reconcile
from onward.files.temporary import Temporary
from onward.ids import new_id
from onward.inspection import JobFilter, Retention
from onward.jobs import Job
from tests.files.runs import claim_next, enqueue, run_all, run_claim


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Store:
    return connect("memory://", clock=clock)


@pytest.fixture
def files(tmp_path: Path) -> FileJobs:
    return FileJobs(tmp_path)


def write(path: str, content: str = "content") -> CreateFile:
    return CreateFile(path, content, overwrite=True)


def test_a_disk_that_is_as_promised_is_clean(tmp_path: Path, store: Store, files: FileJobs) -> None:
    """The last completed job of each path decides; what it superseded is silent."""
    run_all(store, files.create, write("a", "1"), write("a", "2"), write("b/c", "3"), write("gone", "4"))
    run_all(store, files.delete, DeleteFile("gone"), DeleteFile("never/there"))
    run_all(store, files.create, write("a", "5"))
    found = files.reconcile(store)
    assert (found.checked, found.unchecked, found.pending, list(found.discrepancies)) == (4, 0, 0, [])
    assert (tmp_path / "a").read_text() == "5"


def test_each_discrepancy_is_one_line_that_names_path_and_job(tmp_path: Path, store: Store, files: FileJobs) -> None:
    """Missing, changed, back again, not a file any more."""
    missing, changed, replaced = run_all(store, files.create, write("missing"), write("changed"), write("replaced"))
    (back,) = run_all(store, files.delete, DeleteFile("back"))
    (tmp_path / "missing").unlink()
    (tmp_path / "changed").write_text("other")
    (tmp_path / "replaced").unlink()
    (tmp_path / "replaced").mkdir()
    (tmp_path / "back").write_text("")
    before = sorted(os.listdir(tmp_path))
    lines = files.reconcile(store).discrepancies
    assert [line.partition(":")[0] for line in lines] == ["exists", "differs", "missing", "not a file"]
    for job_id, path in ((missing, "missing"), (changed, "changed"), (replaced, "replaced"), (back, "back")):
        assert sum(job_id in line and f" {path}" in line for line in lines) == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_failed_jobs_promise_nothing(store: Store, files: FileJobs) -> None:
    """A dead-lettered write left the file of the job before it."""
    run_all(store, files.create, write("x", "old"), CreateFile("x", "new"))
    found = files.reconcile(store)
    assert (found.checked, list(found.discrepancies)) == (1, [])


def test_a_path_with_a_live_job_is_pending_and_not_judged(tmp_path: Path, store: Store, files: FileJobs) -> None:
    """Its content is about to change; both the old and the new are right."""
    run_all(store, files.create, write("x", "old"))
    (tmp_path / "x").write_text("new")
    enqueue(store, files.create, write("x", "new"))
    found = files.reconcile(store)
    assert (found.checked, found.pending, list(found.discrepancies)) == (0, 1, [])


def test_files_that_no_kept_job_knows_are_said_to_be_unchecked(tmp_path: Path, store: Store, files: FileJobs, clock: FakeClock) -> None:
    """Silence would look like a pass."""
    run_all(store, files.create, write("old"))
    clock.advance(timedelta(days=8))
    run_all(store, files.create, write("young"))
    assert store.prune(Retention()) == 1
    found = files.reconcile(store)
    assert (found.checked, found.unchecked, list(found.discrepancies)) == (1, 1, [])
    (note,) = found.notes
    assert "old" in note
    assert "unchecked" in note
    (tmp_path / "old").unlink()
    assert files.reconcile(store).unchecked == 0


def test_leftover_temporary_files_are_reported_and_are_no_data(tmp_path: Path, store: Store, files: FileJobs) -> None:
    """They are listed with the reason, and stay: repair is for the sweep."""
    enqueue(store, files.create, write("x"))
    claim = claim_next(store, files.create)
    in_use = tmp_path / Temporary(claim.id, claim.fence, "tmp").name
    stale = tmp_path / Temporary(new_id(), 1, "tmp").name
    for path in (in_use, stale):
        path.write_text("half")
    found = files.reconcile(store)
    assert found.unchecked == 0
    (line,) = found.discrepancies
    assert line.startswith(f"leftover: {stale.name}")
    assert stale.exists()
    files.sweep(store)
    in_use.unlink()
    run_claim(store, claim, files.create)
    assert list(files.reconcile(store).discrepancies) == []


def test_a_missing_base_directory_is_one_discrepancy(tmp_path: Path, store: Store) -> None:
    """A disk that is not mounted is one thing to say, not a thousand."""
    (tmp_path / "base").mkdir()
    files = FileJobs(tmp_path / "base")
    run_all(store, files.create, write("a"), write("b"))
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    found = files.reconcile(store)
    (line,) = found.discrepancies
    assert "does not exist" in line
    assert (found.checked, found.unchecked) == (0, 2)


def test_more_jobs_than_a_page_are_all_read(store: Store, files: FileJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paging by the last id loses and doubles nothing."""
    monkeypatch.setattr(reconcile, "PAGE", 3)
    run_all(store, files.create, *(write(f"{number}") for number in range(10)))
    assert files.reconcile(store).checked == 10


def test_jobs_that_run_meanwhile_cause_no_false_alarm(tmp_path: Path, store: Store, files: FileJobs) -> None:
    """Between the reading of the store and the look at the disk another job may write the path, and complete."""
    run_all(store, files.create, write("x", "old"), write("y", "old"))
    (tmp_path / "y").unlink()
    find, calls = store.find, 0

    def find_then_write(where: JobFilter, *, limit: int = 50, before: str | None = None) -> list[Job]:
        nonlocal calls
        page: list[Job] = find(where, limit=limit, before=before)
        calls += 1
        if calls == 3:  # live jobs, completed jobs and the end of them have been read
            run_all(store, files.create, write("x", "new"))
        return page

    looking: Callable[..., list[Job]] = find_then_write
    store.find = looking  # type: ignore[method-assign]
    found = files.reconcile(store)
    assert calls > 3
    assert [line.partition(" was")[0] for line in found.discrepancies] == ["missing: y"]


@pytest.mark.parametrize("content", ["x", "somebody else's"])
def test_a_file_of_a_job_that_never_completed_is_an_orphan(tmp_path: Path, store: Store, files: FileJobs, content: str) -> None:
    """A worker died between placing and committing, and a person cancelled the job: nobody else will ever look at this file."""
    job_id = enqueue(store, files.create, CreateFile("orphan.txt", "x"))
    (files.base / "orphan.txt").write_text(content)
    assert files.reconcile(store).discrepancies == []
    store.cancel(job_id)
    found = files.reconcile(store)
    if content == "x":
        assert list(found.discrepancies) == [
            f"orphan: orphan.txt has the content that create_file {job_id} was to write, but that job never completed"
        ]
        assert found.unchecked == 0
    else:
        assert list(found.discrepancies) == []
        assert found.unchecked == 1
