"""The application of the memory tests: a job that fails with much in its hands, and one that does nothing."""

from __future__ import annotations

import os

from onward import Onward, RetryPolicy, define_job

MEGABYTE = 1 << 20


def fails_with_a_megabyte(number: int) -> None:
    """Whoever kept its error kept its frame, and what that holds."""
    held = bytearray(MEGABYTE)
    raise RuntimeError(f"job {number} failed with {len(held)} bytes in its hands")


def nothing(number: int) -> None:
    pass


JOBS = {
    "fails": define_job("fails", fails_with_a_megabyte, retry=RetryPolicy(max_attempts=1)),
    "nothing": define_job("nothing", nothing),
}

app = Onward(jobs=JOBS.values()) if "ONWARD_URL" in os.environ else None
