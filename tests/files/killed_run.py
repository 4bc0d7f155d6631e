"""Run the next job of a store, and be killed before the n-th step: ``python -m tests.files.killed_run URL BASE N``.

A step is whatever changes the disk, and each end of the store's transaction. Ends with exit code 0 when there are fewer steps.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onward.clock import SystemClock
from onward.context import JobContext
from onward.drivers import connect
from onward.files import FileJobs
from onward.registry import Registry
from onward.worker.transactions import StoreTransactions
from tests.files.runs import claim_next

CALLS = ("mkdir", "write", "fsync", "replace", "rename", "link", "unlink")


class Killer:
    """Counts steps, and kills the process before the last one it is allowed to see."""

    def __init__(self, last: int) -> None:
        self.left = last

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*args: Any, **options: Any) -> Any:
            self.step()
            return call(*args, **options)

        return killed


class KillingTransactions(StoreTransactions):
    """Steps at the beginning, before the commit, and after it."""

    killer: Killer

    @contextmanager
    def begin(self, context: JobContext) -> Iterator[Any]:
        self.killer.step()
        with super().begin(context) as connection:
            yield connection
            self.killer.step()
        self.killer.step()


def main(url: str, base: str, last: int) -> None:
    files, store, killer = FileJobs(base), connect(url, clock=SystemClock()), Killer(last)
    claim = claim_next(store, *files.jobs)
    definition = files.create if claim.job.type == files.create.name else files.delete
    payload: Any = definition.codec.decode(claim.job.payload)
    transactions = KillingTransactions(store, Registry(files.jobs))
    transactions.killer = killer
    for name in CALLS:
        setattr(os, name, killer.before(getattr(os, name)))
    definition.call(payload, JobContext(claim.job, transactions=transactions))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
