"""A process killed at any step leaves the old file or the new one, and nothing that reconcile and the next run do not find."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from onward.clock import FakeClock, SystemClock
from onward.context import JobContext
from onward.driver import Store
from onward.drivers import connect
from onward.errors import LeaseLost
from onward.files import CreateFile, DeleteFile, FileJobs, find_leftovers
from onward.registry import Registry
from onward.status import Status
from onward.worker.transactions import StoreTransactions
from tests.files.runs import claim_next, enqueue, run_all, run_claim

ROOT = Path(__file__).parents[2]
MOST_STEPS = 30

WORK: dict[str, tuple[Callable[[], Any], str | None, set[str | None]]] = {
    "create": (lambda: CreateFile("new/deep/x", "new"), None, {None, "new"}),
    "overwrite": (lambda: CreateFile("new/deep/x", "new", overwrite=True), "old", {"old", "new"}),
    "delete": (lambda: DeleteFile("new/deep/x", require_exists=True), "old", {"old", None}),
}
"""What is asked for, what was there before, and what may be there at any moment."""


@pytest.mark.parametrize("work", WORK)
def test_a_kill_at_any_step_leaves_old_or_new_and_a_job_that_finishes_it(tmp_path: Path, work: str) -> None:
    """Each step in turn is the last one that a process lives to see."""
    statuses = set()
    for step in range(1, MOST_STEPS):
        home = tmp_path / str(step)
        home.mkdir()
        returncode, status = kill_before(step, home, work)
        statuses.add(status)
        if returncode == 0:
            break
    else:
        raise AssertionError("the run never came to its end")
    assert step > 6
    assert statuses == {Status.IN_PROGRESS, Status.COMPLETED}


def kill_before(step: int, home: Path, work: str) -> tuple[int, Status]:
    """Kill a run before a step, check what it left, finish the job as another worker would, and check again."""
    make_payload, before, allowed = WORK[work]
    base, target, url = home / "base", home / "base/new/deep/x", f"sqlite:///{home / 'jobs.db'}"
    base.mkdir()
    files, store = FileJobs(base), connect(url, clock=SystemClock())
    if before is not None:
        run_all(store, files.create, CreateFile("new/deep/x", before))
    payload = make_payload()
    definition: Any = files.create if isinstance(payload, CreateFile) else files.delete
    job_id = enqueue(store, definition, payload)
    store.close()

    run = subprocess.run([sys.executable, "-m", "tests.files.killed_run", url, str(base), str(step)], cwd=ROOT, check=False)
    assert run.returncode in (0, -9)
    assert content_of(target) in allowed
    store = connect(url, clock=FakeClock(datetime.now(UTC) + timedelta(minutes=5)))
    status = store.get(job_id).status
    assert status in (Status.IN_PROGRESS, Status.COMPLETED)
    check_leftovers(base, store)

    store.sweep()
    if status is Status.IN_PROGRESS:
        assert files.reconcile(store).pending == 1
        assert run_claim(store, claim_next(store, definition), definition) == "completed"
    files.sweep(store)
    found = files.reconcile(store)
    assert (found.checked, found.unchecked, found.pending, list(found.discrepancies)) == (1, 0, 0, [])
    assert content_of(target) == (None if work == "delete" else "new")
    assert leftovers(base) == []
    store.close()
    return run.returncode, status


def check_leftovers(base: Path, store: Store) -> None:
    """Everything that the killed process left under our names is seen."""
    assert sorted(one.path for one in find_leftovers(base, store)) == leftovers(base)


def leftovers(base: Path) -> list[str]:
    return sorted(str(path.relative_to(base)) for path in base.rglob(".onward-*"))


def content_of(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


class SleptTransactions(StoreTransactions):
    """A worker that was stopped between writing its temporary file and placing it: meanwhile the world moves on."""

    meanwhile: Callable[[], object]

    @contextmanager
    def begin(self, context: JobContext) -> Iterator[Any]:
        self.meanwhile()
        with super().begin(context) as connection:
            yield connection


def test_a_worker_that_wakes_up_late_places_nothing(tmp_path: Path) -> None:
    """Its job was taken over, and a newer job has written the file since: the old content must not come back."""
    clock = FakeClock(datetime.now(UTC))
    base, url = tmp_path / "base", f"sqlite:///{tmp_path / 'jobs.db'}"
    base.mkdir()
    files, sleeper, other = FileJobs(base), connect(url, clock=clock), connect(url, clock=clock)
    enqueue(sleeper, files.create, CreateFile("x", "first", overwrite=True))
    claim = claim_next(sleeper, files.create)
    seen: list[str] = []

    def take_over() -> None:
        seen.extend(leftovers(base))
        clock.advance(120)
        other.sweep()
        assert run_claim(other, claim_next(other, files.create), files.create) == "completed"
        run_all(other, files.create, CreateFile("x", "second", overwrite=True))

    transactions = SleptTransactions(sleeper, Registry(files.jobs))
    transactions.meanwhile = take_over
    with pytest.raises(LeaseLost):
        files.create.call(CreateFile("x", "first", overwrite=True), JobContext(claim.job, transactions=transactions))
    assert len(seen) == 1
    assert content_of(base / "x") == "second"
    assert leftovers(base) == []
    found = files.reconcile(other)
    assert (found.checked, found.unchecked, list(found.discrepancies)) == (1, 0, [])
    sleeper.close()
    other.close()
