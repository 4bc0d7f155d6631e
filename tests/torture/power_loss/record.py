"""Run a workload under strace, and keep what strace wrote."""

from __future__ import annotations

from pathlib import Path

from tests.torture.power_loss.recording import RECORDED, Playback
from tests.torture.power_loss.states import Recording
from tests.torture.traced import run_python

MODULE = "tests.torture.power_loss.workloads"
LONGEST_WRITE = 4_000_000
"""Bytes of one call that strace writes out."""


def record(workload: str, room: Path, seed: int, steps: int, plant: str = "") -> Recording:
    """Run a workload in an empty home below ``room``. ``plant`` names a fault to build in."""
    home, trace = room / "home", room / "trace"
    home.mkdir(parents=True)
    tracing = ("--seccomp-bpf", "-y", "-xx", "-s", str(LONGEST_WRITE), "-o", str(trace), "-e", f"trace={','.join(RECORDED)}")
    done = run_python([MODULE, workload, str(home), str(seed), str(steps), *([plant] if plant else [])], *tracing)
    if done.returncode:
        raise AssertionError(f"the workload {workload} cannot even be run: {done.stderr[-2000:]}")
    return Recording(workload, str(room), str(home), sum(1 for _ in Playback(trace, str(home)).points()))
