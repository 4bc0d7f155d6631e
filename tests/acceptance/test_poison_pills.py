"""Jobs that kill their process, among others that must not pay for it."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from onward.app import Onward
from onward.inspection import JobFilter
from onward.status import Status
from tests.acceptance.pill_app import JOBS
from tests.acceptance.worker_process import WorkerProcess

PILLS, GOOD = int(os.environ.get("PILLS", "5")), int(os.environ.get("GOOD_JOBS", "500"))
SLOTS, PROCESSES = 8, 2
SECONDS_A_PILL = 5


@pytest.mark.timeout(1200)
def test_pills_end_and_no_good_job_pays_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those with one try are all completed; a pill has as many tries as it was given."""
    monkeypatch.setenv("ONWARD_URL", f"sqlite:///{tmp_path / 'jobs.db'}")
    with Onward(jobs=JOBS.values()) as app:
        alone = work_off(app, tmp_path, pills=0)
        mixed = work_off(app, tmp_path, pills=PILLS)
        ended = Counter((job.type, job.status) for job in app.store.find(JobFilter(), limit=3 * GOOD + PILLS))
        assert ended == {
            ("good", Status.COMPLETED): 2 * (GOOD - GOOD // 2),
            ("once", Status.COMPLETED): 2 * (GOOD // 2),
            ("pill", Status.DEAD_LETTER): PILLS,
        }
        for job in app.store.find(JobFilter(types=("pill",)), limit=PILLS):
            # What another pill cut short, or kept from beginning, was given back.
            assert job.fence <= job.max_attempts + job.releases + job.lost_leases
            assert (job.error or "").startswith("IsolatedProcessDied: its process died: SIGKILL")
    print(f"{GOOD} good jobs alone: {alone:.1f} s; with {PILLS} pills: {mixed:.1f} s")
    assert mixed < 1.5 * alone + SECONDS_A_PILL * PILLS * SLOTS


def work_off(app: Onward, home: Path, *, pills: int) -> float:
    """Enqueue, drain, and give the seconds that the worker took."""
    asked = [JOBS["once" if number % 2 else "good"].new_job(number) for number in range(GOOD)]
    for number in range(pills):
        asked.insert(number * len(asked) // pills, JOBS["pill"].new_job(number))
    app.enqueue_many(asked)
    began = time.monotonic()
    arguments = (f"--processes={PROCESSES}", f"--concurrency={SLOTS}", "--drain", "--grace=5s", "--poll=0.1s", "--sweep=1s")
    with WorkerProcess(home, *arguments, app="tests.acceptance.pill_app:app") as worker:
        while app.store.count(JobFilter(statuses=(Status.QUEUED, Status.RETRYING, Status.IN_PROGRESS))):
            assert worker.process.poll() is None, "".join(worker.errors)[-2000:]
            time.sleep(0.05)
        return time.monotonic() - began
