"""For the tests of an application: look at what was enqueued, run it, call a handler by itself, check the code.

Fixtures ``onward_app``, ``onward_store`` and ``onward_clock`` come with ``onward.testing.pytest_plugin``, which pytest finds by itself. The
suite for drivers is ``onward.testing.conformance``.
"""

from onward.clock import FakeClock
from onward.testing.check import check_enqueues
from onward.testing.drain import Drained, adrain, drain
from onward.testing.enqueued import assert_enqueued, enqueued_jobs, refute_enqueued, scheduled_jobs
from onward.testing.factories import make_job, make_new_job
from onward.testing.handler import make_context, run_job

__all__ = [
    "Drained",
    "FakeClock",
    "adrain",
    "assert_enqueued",
    "check_enqueues",
    "drain",
    "enqueued_jobs",
    "make_context",
    "make_job",
    "make_new_job",
    "refute_enqueued",
    "run_job",
    "scheduled_jobs",
]
