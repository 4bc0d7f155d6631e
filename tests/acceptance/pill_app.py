"""The application of the poison-pill test: many good jobs, and some that kill whatever process runs them."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

from onward import Onward, RetryPolicy, define_job


def good(number: int) -> int:
    return number


def pill(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


AT_ONCE = RetryPolicy(max_attempts=2, base=timedelta(0))
JOBS = {
    "good": define_job("good", good, lease=10),
    "once": define_job("once", good, lease=10, retry=RetryPolicy(max_attempts=1)),
    "pill": define_job("pill", pill, lease=10, retry=AT_ONCE),
}

app = Onward(jobs=JOBS.values()) if "ONWARD_URL" in os.environ else None
