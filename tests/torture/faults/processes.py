"""What happens to processes: they are killed, frozen, told to stop, or left without what they need."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from contextlib import suppress

import psutil

from tests.torture.application import LEASE
from tests.torture.faults.kinds import Fault, kill, last, run_job, work_and_stop
from tests.torture.fleet import MARGIN, Fleet
from tests.torture.harmful import MEGABYTE, WAYS_TO_DIE, program_of

ROOM = 4 * MEGABYTE
"""Too little for a thread's stack. With none at all a thread of Python's may end before it has begun, while its starter waits for it."""
AWAY = 1.0
"""Seconds in which nobody works."""
ENDED_BY_SIGNAL = {0, 130, -signal.SIGTERM, -signal.SIGINT}


def kill_worker(fleet: Fleet) -> None:
    """SIGKILL one worker process that holds a claim, at a time soon after."""
    is_killed = False
    while not is_killed:  # it may have ended by itself meanwhile
        worker = fleet.a_busy_worker()
        last(fleet.chance.uniform(0, 0.1 * LEASE))
        is_killed = kill(fleet, "kill worker", worker)


def kill_supervisor(fleet: Fleet) -> None:
    """SIGKILL a supervisor and all that it started: nobody is left to take back what they held."""
    _kill_tree(fleet, "kill supervisor and workers", fleet.chance.choice(fleet.supervisors))


def kill_everybody(fleet: Fleet) -> None:
    """SIGKILL every supervisor and worker: jobs pile up for a while, and whoever comes then runs them in their order."""
    for supervisor in list(fleet.supervisors):
        _kill_tree(fleet, "kill every worker", supervisor)
    last(AWAY)


def _kill_tree(fleet: Fleet, fault: str, supervisor: subprocess.Popen[bytes]) -> None:
    fleet.wait_for(lambda: fleet.workers(supervisor), "the workers of a supervisor had run a job")
    workers = fleet.workers(supervisor)
    fleet.ended.add(supervisor.pid)
    os.kill(supervisor.pid, signal.SIGKILL)
    for worker in workers:
        kill(fleet, fault, worker)
    supervisor.wait()  # one that is not quite dead would not be replaced, and chosen again


def kill_sender(fleet: Fleet) -> None:
    """SIGKILL a process that enqueues."""
    sender = fleet.a_sender()
    last(fleet.chance.uniform(0, 0.3))
    fleet.ended.add(sender.pid)
    kill(fleet, "kill sender", sender.pid)
    sender.wait()


def pause(fleet: Fleet) -> None:
    """Freeze a worker process for longer than its leases, and let it go on."""
    frozen = fleet.a_worker()
    with suppress(ProcessLookupError):
        os.kill(frozen, signal.SIGSTOP)
        fleet.history.write("fault", "pause", pid=frozen)
        last(2.2 * LEASE)
        os.kill(frozen, signal.SIGCONT)
        fleet.history.write("healed", "pause", pid=frozen)


def signal_storm(fleet: Fleet) -> None:
    """Ten TERM and INT signals within a second."""
    supervisor = fleet.chance.choice(fleet.supervisors)
    children = psutil.Process(supervisor.pid).children(recursive=True)
    fleet.history.write("fault", "signal storm", pid=supervisor.pid)
    for _ in range(10):
        with suppress(ProcessLookupError):
            supervisor.send_signal(fleet.chance.choice((signal.SIGTERM, signal.SIGINT)))
        last(0.1)
    fleet.expect_end(supervisor, ENDED_BY_SIGNAL)
    _, alive = psutil.wait_procs(children, 8)
    fleet.failures += [f"process {one.pid} outlived a signal storm" for one in alive]
    fleet.history.write("healed", "signal storm", pid=supervisor.pid)


def fork_in_handler(fleet: Fleet) -> None:
    """A handler forks the worker process, and its copy goes on for a while, or returns."""
    run_job(fleet, "fork in handler", "forks", fleet.chance.randrange(3))


def die_in_handler(fleet: Fleet) -> None:
    """A handler ends its process in one of many ways."""
    run_job(fleet, "die in handler", "dies", fleet.chance.randrange(len(WAYS_TO_DIE)))


def few_descriptors(fleet: Fleet) -> None:
    """A worker process may open no file more."""
    worker = fleet.a_worker()
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        soft, hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (psutil.Process(worker).num_fds(), hard))
        fleet.history.write("fault", "few descriptors", pid=worker)
        last(LEASE)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (soft, hard))
        fleet.history.write("healed", "few descriptors", pid=worker)


def closed_stdout(fleet: Fleet) -> None:
    """Nobody reads what a supervisor and its workers write, and the pipe is closed; they must work on, and stop in good order."""
    supervisor = fleet.start_supervisor(stdout=subprocess.PIPE)
    assert supervisor.stdout is not None
    supervisor.stdout.close()
    work_and_stop(fleet, "closed stdout", supervisor)


def full_log(fleet: Fleet) -> None:
    """The disk is full to which a supervisor and its workers log: no line of theirs can be written."""
    with open("/dev/full", "wb", buffering=0) as full:
        work_and_stop(fleet, "full log", fleet.start_supervisor(stdout=full, stderr=full))


def fork_in_transaction(fleet: Fleet) -> None:
    """A handler forks the worker process with its transaction open; the copy ends at once, or later, or comes to the commit as well."""
    run_job(fleet, "fork in transaction", "forks_inside", fleet.chance.randrange(3))


def leave_program(fleet: Fleet) -> None:
    """SIGKILL the worker of an isolated job, or the job's own process, while the handler's program runs: that must not outlive it."""
    number = fleet.chance.randrange(10**9)
    job_id = fleet.enqueue("leaves", number)
    programs: list[psutil.Process] = []

    def is_there() -> bool:
        programs[:] = [one for one in fleet.programs() if _command_of(one) == program_of(number)]
        return bool(programs)

    fleet.wait_for(is_there, "a handler had started its program")
    for program in programs:
        own = program.parent()
        victim = own if own is None or fleet.chance.random() < 0.5 else own.parent()
        if victim is not None:
            kill(fleet, "leave program", victim.pid)
        fleet.wait_for(lambda program=program: not program.is_running(), "the program of a killed handler was ended", MARGIN)  # type: ignore[misc]
    fleet.wait_until_final(job_id)


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def handler_without_memory(fleet: Fleet) -> None:
    """The process of an isolated job may have no more memory, so that its handler ends with a MemoryError."""
    run_job(fleet, "handler without memory", "starves", 0)


def worker_without_memory(fleet: Fleet) -> None:
    """A worker process may map next to no memory more: whatever larger it makes is a MemoryError, and every new thread an error."""
    worker = fleet.a_worker()
    with suppress(ProcessLookupError, psutil.NoSuchProcess):
        soft, hard = resource.prlimit(worker, resource.RLIMIT_AS)
        resource.prlimit(worker, resource.RLIMIT_AS, (psutil.Process(worker).memory_info().vms + ROOM, hard))
        fleet.history.write("fault", "worker without memory", pid=worker)
        last(LEASE)
        resource.prlimit(worker, resource.RLIMIT_AS, (soft, hard))
        fleet.history.write("healed", "worker without memory", pid=worker)


def hold_gil(fleet: Fleet) -> None:
    """A handler lets no other thread of its process run for longer than a lease: none of its neighbours is renewed."""
    run_job(fleet, "hold GIL", "hogs", 0)


FAULTS = (
    Fault("kill worker", 1, kill_worker, quick=2),
    Fault("kill supervisor and workers", 1, kill_supervisor),
    Fault("kill every worker", 1, kill_everybody),
    Fault("kill sender", 1, kill_sender, quick=2),
    Fault("pause", 4, pause, quick=2),
    Fault("signal storm", 6, signal_storm),
    Fault("fork in handler", 7, fork_in_handler, quick=2),
    Fault("leave program", 3, leave_program, quick=2),
    Fault("fork in transaction", 7, fork_in_transaction, quick=3),
    Fault("handler without memory", 8, handler_without_memory),
    Fault("worker without memory", 8, worker_without_memory),
    Fault("die in handler", 9, die_in_handler, quick=2),
    Fault("hold GIL", 10, hold_gil),
    Fault("few descriptors", 40, few_descriptors),
    Fault("closed stdout", 41, closed_stdout),
    Fault("full log", 41, full_log),
)
