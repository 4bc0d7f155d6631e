"""Temporary files of killed workers are told from those in use by the store alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.clock import SystemClock
from onward.driver import Store
from onward.drivers import connect
from onward.files import CreateFile, DeleteFile, FileJobs, find_leftovers
from onward.files.temporary import Temporary, read_name
from onward.ids import new_id
from tests.files.runs import claim_next, enqueue, release, run_claim


@pytest.fixture
def store() -> Store:
    return connect("memory://", clock=SystemClock())


@pytest.fixture
def files(tmp_path: Path) -> FileJobs:
    return FileJobs(tmp_path)


def leave(folder: Path, job_id: str, fence: int, kind: str = "tmp") -> Path:
    path = folder / Temporary(job_id, fence, "tmp" if kind == "tmp" else "del").name
    path.write_text("half")
    return path


def test_a_name_is_read_as_it_was_written() -> None:
    """Only our own exact pattern counts as ours."""
    job_id = new_id()
    for kind in ("tmp", "del"):
        one = Temporary(job_id, 12, kind)  # type: ignore[arg-type]
        assert read_name(one.name) == one
    for name in (
        f".onward-{job_id}-x.tmp",
        f".onward-{job_id.lower()}-1.tmp",
        f"a.onward-{job_id}-1.tmp",
        f".onward-{job_id}-1.tmp.bak",
        "x.tmp",
    ):
        assert read_name(name) is None


def test_only_files_of_claims_that_are_over_are_swept(tmp_path: Path, store: Store, files: FileJobs) -> None:
    """Never one in use, never one that is not ours."""
    (tmp_path / "deep").mkdir()
    stranger = tmp_path / "deep/.onward-mine.tmp"
    stranger.write_text("not yours")
    done = enqueue(store, files.create, CreateFile("done", "x"))
    run_claim(store, claim_next(store, files.create), files.create)
    waiting = enqueue(store, files.create, CreateFile("waiting", "x"))
    release(store, claim_next(store, files.create))
    running = enqueue(store, files.create, CreateFile("running", "x"))
    claims = [claim_next(store, files.create), claim_next(store, files.create)]
    in_use = {claim.id: leave(tmp_path / "deep", claim.id, claim.fence) for claim in claims}
    gone = [leave(tmp_path, new_id(), 1), leave(tmp_path, done, 1), leave(tmp_path / "deep", waiting, 1), leave(tmp_path, done, 7, "del")]
    assert in_use.keys() == {waiting, running}
    assert sum(one.verdict == "stale" for one in find_leftovers(tmp_path, store)) == len(gone)
    swept = files.sweep(store)
    assert sorted(swept) == sorted(str(path.relative_to(tmp_path)) for path in gone)
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in (*in_use.values(), stranger))
    assert files.sweep(store) == []


def test_a_deletion_that_is_not_recorded_yet_keeps_its_proof(tmp_path: Path, store: Store, files: FileJobs) -> None:
    """Its next try needs to know that the file was there."""
    job_id = enqueue(store, files.delete, DeleteFile("x", require_exists=True))
    release(store, claim_next(store, files.delete))
    proof = leave(tmp_path, job_id, 1, "del")
    assert files.sweep(store) == []
    assert proof.exists()
    assert run_claim(store, claim_next(store, files.delete), files.delete) == "completed"
    assert not proof.exists()


@pytest.mark.parametrize("ending", ["cancelled", "deleted"])
def test_a_file_whose_deletion_never_took_place_is_kept_for_a_person(tmp_path: Path, store: Store, files: FileJobs, ending: str) -> None:
    """A try that died after moving the file aside, and a person who then cancelled the job, must not destroy the file between them."""
    job_id = enqueue(store, files.delete, DeleteFile("keep.txt"))
    claim = claim_next(store, files.delete)
    aside = leave(tmp_path, job_id, claim.fence, "del")
    release(store, claim)
    store.cancel(job_id)
    if ending == "deleted":
        store.delete(job_id)
    assert files.sweep(store) == []
    assert aside.read_text() == "half"
    (line,) = files.reconcile(store).discrepancies
    assert line.startswith(f"aside: {aside.name} is a file that was to be deleted, but its job {job_id} is ")
