"""What the supervisor decides, and what it does where nothing can be started."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

from onward.clock import SystemClock
from onward.drivers.memory import MemoryStore
from onward.worker.child import ChildPipes
from onward.worker.endings import describe_end
from onward.worker.supervisor import LONGEST_BACK_OFF, Supervisor, back_off


@pytest.mark.parametrize(
    ("failures", "was_ready", "seconds"),
    [
        (1, True, 0.0),
        (2, True, 1.0),
        (3, True, 2.0),
        (6, True, 16.0),
        (7, True, LONGEST_BACK_OFF),
        (10_000, True, LONGEST_BACK_OFF),
        (1, False, 1.0),
        (2, False, 2.0),
        (10_000, False, LONGEST_BACK_OFF),
    ],
)
def test_a_dead_process_is_replaced_at_once_and_a_hopeless_one_ever_later(failures: int, was_ready: bool, seconds: float) -> None:
    """The job of a killed worker must not wait; one that dies at each start must not burn the machine."""
    assert back_off(failures, was_ready=was_ready) == seconds


@pytest.mark.parametrize(
    ("code", "told"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-40, "signal 40"), (-63, "signal 63")]
)
def test_every_end_of_a_process_can_be_told(code: int, told: str) -> None:
    """Real-time signals between the first and the last have no name; the supervisor must outlive them."""
    assert describe_end(code) == told


def test_a_process_that_cannot_be_started_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Descriptors, processes or memory may be short for a while; and nothing is left open by each try."""
    tries = []

    def command(pipes: ChildPipes) -> list[str]:
        tries.append(pipes)
        return [sys.executable if len(tries) > 1 else str(tmp_path / "no such program"), "-c", "raise SystemExit(2)"]

    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    store = MemoryStore(clock=SystemClock())
    supervisor = Supervisor(command, processes=1, grace=1.0, concurrency=1, open_store=lambda url: store, on_swept=lambda swept: ())
    assert supervisor.run() == 2
    assert len(tries) == 2
    assert "no worker process could be started, next try in 1 s" in caplog.text
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before  # an earlier test's may have been closed meanwhile
