"""What every fault is, and the parts that several are made of."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
from msgspec import Struct

from tests.torture.fleet import Fleet
from tests.torture.sites import STORES

SQLITE, POSTGRES = ("sqlite",), ("postgres",)


class Fault(Struct, frozen=True):
    """``number`` is that of the list of fault kinds, ``stores`` where it applies."""

    name: str
    number: int
    inject: Callable[[Fleet], None]
    stores: tuple[str, ...] = STORES
    quick: int = 1
    """How often a quick run injects it; with 0 only a release does, once in its turn."""


def last(seconds: float) -> None:
    """For how long a fault lasts, or what lies before it: a part of the fault, and no wait for anything."""
    time.sleep(seconds)


def kill(fleet: Fleet, name: str, pid: int) -> bool:
    """Say whether there was still something to kill."""
    with suppress(psutil.NoSuchProcess):
        # A dead process that nobody has reaped can be killed as well, and nothing would come of it.
        if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            fleet.killed.add(pid)
            os.kill(pid, signal.SIGKILL)
            fleet.history.write("fault", name, pid=pid)
            return True
    return False


def run_job(fleet: Fleet, fault: str, name: str, number: int) -> None:
    job_id = fleet.enqueue(name, number)
    fleet.history.write("fault", fault, job=job_id, detail=str(number))
    fleet.wait_until_final(job_id)
    fleet.history.write("healed", fault, job=job_id)


def work_and_stop(fleet: Fleet, fault: str, supervisor: subprocess.Popen[bytes], meanwhile: Callable[[], None] = lambda: None) -> None:
    """One more supervisor, started with a fault, must come to work, and stop in good order."""
    fleet.supervisors.append(supervisor)
    fleet.history.write("fault", fault, pid=supervisor.pid)
    fleet.wait_for(lambda: fleet.workers(supervisor), f"a worker of the supervisor with {fault!r} had run a job")
    meanwhile()
    supervisor.terminate()
    fleet.expect_end(supervisor, {0})
    fleet.history.write("healed", fault, pid=supervisor.pid)
