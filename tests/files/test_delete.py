"""``delete_file``: once, also when its job runs twice, and never what was not meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onward.errors import LeaseLost, PermanentJobError
from onward.files import delete_file, digest
from onward.files.temporary import Temporary
from onward.ids import new_id
from tests.files.runs import loose_context


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_removed_and_a_second_run_succeeds_too(tmp_path: Path) -> None:
    """At least once means that a deletion can come twice."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/x").write_text("content")
    for fence in (1, 2):
        context = loose_context(fence)
        delete_file(tmp_path, "deep/x", context)
        assert context.completed_in_transaction
        assert names(tmp_path / "deep") == []


@pytest.mark.parametrize("path", ["x", "no/such/directory/x"])
def test_a_missing_file_is_an_error_only_where_asked(tmp_path: Path, path: str) -> None:
    """And trying again cannot help."""
    context = loose_context()
    delete_file(tmp_path, path, context)
    assert context.completed_in_transaction
    with pytest.raises(PermanentJobError, match="does not exist, and require_exists"):
        delete_file(tmp_path, path, loose_context(), require_exists=True)


def test_a_rerun_after_a_crash_knows_that_the_file_was_there(tmp_path: Path) -> None:
    """The first try removed the file and died before its commit: ``require_exists`` was met."""
    job_id = new_id()
    (tmp_path / "x").write_text("content")
    with pytest.raises(LeaseLost):
        delete_file(tmp_path, "x", loose_context(1, job_id=job_id, fails_at_commit=True), require_exists=True)
    assert names(tmp_path) == [Temporary(job_id, 1, "del").name]
    context = loose_context(2, job_id=job_id)
    delete_file(tmp_path, "x", context, require_exists=True)
    assert context.completed_in_transaction
    assert names(tmp_path) == []


def test_a_rerun_that_never_found_the_file_still_fails(tmp_path: Path) -> None:
    """A try that was given back or failed before it looked proves nothing."""
    job_id = new_id()
    (tmp_path / Temporary(new_id(), 1, "del").name).write_text("of another job")
    with pytest.raises(LeaseLost):
        delete_file(tmp_path, "x", loose_context(1, job_id=job_id, lost=True), require_exists=True)
    with pytest.raises(PermanentJobError, match="require_exists"):
        delete_file(tmp_path, "x", loose_context(2, job_id=job_id), require_exists=True)


def test_a_rerun_removes_a_file_that_came_back(tmp_path: Path) -> None:
    """The job that completes last decides, and this one has not completed yet."""
    job_id = new_id()
    (tmp_path / "x").write_text("first")
    with pytest.raises(LeaseLost):
        delete_file(tmp_path, "x", loose_context(1, job_id=job_id, fails_at_commit=True))
    (tmp_path / "x").write_text("second")
    delete_file(tmp_path, "x", loose_context(2, job_id=job_id))
    assert names(tmp_path) == []


def test_a_lost_lease_deletes_nothing(tmp_path: Path) -> None:
    """The holder may have written the file anew."""
    (tmp_path / "x").write_text("content")
    with pytest.raises(LeaseLost):
        delete_file(tmp_path, "x", loose_context(lost=True))
    assert names(tmp_path) == ["x"]


def test_a_guarded_deletion_spares_a_file_that_was_written_anew(tmp_path: Path) -> None:
    """A deletion that comes late must not take a newer version with it."""
    (tmp_path / "x").write_text("v2")
    with pytest.raises(PermanentJobError, match="has changed"):
        delete_file(tmp_path, "x", loose_context(), sha256=digest(b"v1"))
    assert (tmp_path / "x").read_text() == "v2"
    delete_file(tmp_path, "x", loose_context(), sha256=digest(b"v2").upper())
    assert names(tmp_path) == []


def test_a_directory_swapped_in_at_the_last_moment_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename cannot be told to take files only."""
    (tmp_path / "x").write_text("content")
    real = os.rename

    def swap(source: str, target: str, **options: object) -> None:
        if source == "x" and (tmp_path / "x").is_file():
            (tmp_path / "x").unlink()
            (tmp_path / "x").mkdir()
            (tmp_path / "x/precious").write_text("")
        real(source, target, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", swap)
    with pytest.raises(PermanentJobError, match="only regular files"):
        delete_file(tmp_path, "x", loose_context())
    assert names(tmp_path) == ["x"]
    assert names(tmp_path / "x") == ["precious"]


@pytest.mark.parametrize("is_newer", [False, True])
def test_content_swapped_in_at_the_last_moment_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_newer: bool) -> None:
    """A writer that replaces the file between the look and the rename loses nothing, nor does one that writes it once more meanwhile."""
    (tmp_path / "x").write_text("v1")
    real = os.rename

    def swap(source: str, target: str, **options: object) -> None:
        if source == "x":
            (tmp_path / "x").write_text("v2")
        real(source, target, **options)  # type: ignore[arg-type]
        if source == "x" and is_newer:
            (tmp_path / "x").write_text("v3")

    monkeypatch.setattr(os, "rename", swap)
    with pytest.raises(PermanentJobError, match="has changed"):
        delete_file(tmp_path, "x", loose_context(), sha256=digest(b"v1"))
    assert (tmp_path / "x").read_text() == ("v3" if is_newer else "v2")


def test_the_directory_is_durable_before_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when nothing was there: an earlier try may have died before its fsync."""
    steps: list[str] = []
    for name in ("rename", "fsync", "unlink"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, _name=name, _real=real, **kwargs: (steps.append(_name), _real(*args, **kwargs))[1])
    (tmp_path / "x").write_text("content")
    context = loose_context(before=lambda: steps.append("claim checked"))
    delete_file(tmp_path, "x", context)
    assert steps == ["claim checked", "rename", "fsync", "unlink"]
    steps.clear()
    delete_file(tmp_path, "x", loose_context(before=lambda: steps.append("claim checked")))
    assert steps[:2] == ["claim checked", "fsync"]
