"""What happens to the host of a supervisor and its workers: it stands still, is slow, or is without memory, threads or the right time."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

from tests.torture.application import LEASE
from tests.torture.cgroups import Cgroup
from tests.torture.faults.kinds import POSTGRES, Fault, kill, last, work_and_stop
from tests.torture.fleet import Fleet
from tests.torture.harmful import HOARD, MEGABYTE
from tests.torture.injectors import other_monotonic
from tests.torture.wrong_time import WrongTime

SHARE = 0.05
"""Of one core, for a whole supervisor tree that is to starve."""
TRIES = 3
PERIOD = 100_000
"""Microseconds."""
REBOOTED = 100_000
"""Seconds by which the monotonic clock of a host differs that was started at another time."""
OFFSETS = (1, -1, 3600, -3600, 86400, -86400, 0)
"""Seconds by which the clock of a process is wrong, one after the other in a random order."""


def freeze_tree(fleet: Fleet) -> None:
    """A supervisor and all that came of it stand still for longer than their leases, and no signal tells anybody."""
    supervisor = fleet.chance.choice(fleet.supervisors)
    with Cgroup("freezer") as group:
        group.take(supervisor.pid)
        try:
            fleet.history.write("fault", "freeze tree", pid=supervisor.pid)
            group.set("freezer.state", "FROZEN")
            last(2.2 * LEASE)
        finally:
            group.set("freezer.state", "THAWED")
        fleet.history.write("healed", "freeze tree", pid=supervisor.pid)


def starve_cpu(fleet: Fleet) -> None:
    """A supervisor and its workers share a twentieth of a core: their heartbeats come late, or not at all."""
    supervisor = fleet.chance.choice(fleet.supervisors)
    with Cgroup("cpu") as group:
        group.set("cpu.cfs_period_us", PERIOD)
        group.set("cpu.cfs_quota_us", int(SHARE * PERIOD))
        group.take(supervisor.pid)
        fleet.history.write("fault", "starve CPU", pid=supervisor.pid)
        last(2 * LEASE)
    fleet.history.write("healed", "starve CPU", pid=supervisor.pid)


def kernel_kill(fleet: Fleet) -> None:
    """A handler takes more memory than its host has, and the kernel kills its process without asking."""
    with Cgroup("memory") as group:
        group.set("memory.limit_in_bytes", HOARD * MEGABYTE * 3 // 4)
        group.take(*(supervisor.pid for supervisor in fleet.supervisors))
        fleet.history.write("fault", "kernel kill")
        for _ in range(TRIES):  # a claim may be lost before its handler begins, and later ones take nothing
            fleet.wait_until_final(fleet.enqueue("hoards"))
            if has_killed := "\noom_kill 0\n" not in group.read("memory.oom_control"):
                break
        # Whoever asked for memory in the moment before the kernel had freed that of the first.
        fleet.ended |= {supervisor.pid for supervisor in fleet.supervisors if supervisor.poll() == -signal.SIGKILL}
        fleet.history.write("healed", "kernel kill")
        if not has_killed:
            fleet.failures.append("the kernel killed nobody, although a handler took all memory")


def no_threads(fleet: Fleet) -> None:
    """A supervisor and its workers can start neither a thread nor a process, and one of the workers dies meanwhile."""
    supervisor = fleet.chance.choice(fleet.supervisors)
    fleet.wait_for(lambda: fleet.workers(supervisor), "a worker of a supervisor had run a job")
    with Cgroup("pids") as group:
        group.take(supervisor.pid)
        group.set("pids.max", 1)
        fleet.history.write("fault", "no threads", pid=supervisor.pid)
        for worker in fleet.workers(supervisor)[:1]:
            kill(fleet, "kill worker", worker)
        last(LEASE)
    fleet.history.write("healed", "no threads", pid=supervisor.pid)


def wrong_clock(fleet: Fleet) -> None:
    """The wall clock of one supervisor and its workers jumps to and fro, up to a day. Only where the store has a clock of its own: all
    processes on one SQLite file share the clock of their host, and a file knows no other.
    """
    with tempfile.TemporaryDirectory() as folder:
        clock = WrongTime(Path(folder))
        clock.set(fleet.chance.choice(OFFSETS))

        def strobe() -> None:
            for offset in fleet.chance.sample(OFFSETS, len(OFFSETS)):
                clock.set(offset)
                last(0.4)

        work_and_stop(fleet, "wrong clock", fleet.start_supervisor(environment=clock.environment), strobe)


def other_host(fleet: Fleet) -> None:
    """The monotonic clock of one supervisor and its workers is far from that of the others, as on a host that was started long ago."""
    work_and_stop(fleet, "other monotonic clock", fleet.start_supervisor(before=other_monotonic(REBOOTED)), lambda: last(LEASE))


FAULTS = (
    Fault("freeze tree", 5, freeze_tree),
    Fault("kernel kill", 8, kernel_kill),
    Fault("starve CPU", 11, starve_cpu),
    Fault("wrong clock", 12, wrong_clock, POSTGRES),
    Fault("other monotonic clock", 13, other_host),
    Fault("no threads", 40, no_threads),
)
