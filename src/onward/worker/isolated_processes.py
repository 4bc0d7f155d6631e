"""The processes of isolated jobs: one for each that runs, kept for the next, and never shared."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from msgspec.json import encode

from onward.outcome import Snooze, StoppedByWorker
from onward.turn import Settlement
from onward.worker.executor import Executor
from onward.worker.isolated_messages import Ended, Order, Progressed, Report, Started, settlement
from onward.worker.isolated_process import IsolatedProcess, IsolatedProcessDied
from onward.worker.run import Run

logger = logging.getLogger("onward.worker")

START_WITHIN = 60.0
"""Seconds in which a process must have loaded the application."""
AGAIN_AFTER = timedelta(seconds=10)
"""When a job is tried again for which no process could be started."""
MOST_STARTS = 2
"""Processes that are started for one run of a job. Idle ones that have just ended are not counted: there are no more of them than slots."""


class IsolatedProcesses:
    """Runs jobs in processes that load ``application``, which is ``module:attribute``. ``run`` is called in a slot's thread."""

    def __init__(self, application: str, executor: Executor, *, lease_owner: str) -> None:
        self._application = application
        self._executor = executor
        self._lease_owner = lease_owner
        self._lock = threading.Lock()
        self._idle: list[IsolatedProcess] = []
        # A handler may change both, and the application has to be found where this process found it.
        self._folder = os.getcwd()
        self._paths = encode([path or self._folder for path in sys.path]).decode()
        self._is_closed = False

    def run(self, run: Run, on_start: Callable[[], object]) -> Settlement:
        """Have the job run in a process of its own, and say how that ended. ``on_start`` is called when its handler begins."""
        starts = 0
        while starts < MOST_STARTS:
            process = self._take_idle()
            if process is None:
                starts += 1
                process = self._start()
            if process is None:
                break
            if run.cancel_requested_at is not None or run.is_given_up:  # while the process loaded the application
                self._keep(process, is_spent=False)
                return self._executor.conclude(run, StoppedByWorker())
            run.run_in(process)
            report = process.run(Order(run.claim.job, run.claim.lease, self._lease_owner), lambda report: self._hear(run, report, on_start))
            run.process = None
            if report is not None:
                self._keep(process, is_spent=report.is_spent)
                return self._settle(run, report)
            how = process.end()
            if run.started_at is not None:
                return self._died(run, process, how)
            # An idle process may end at any moment; whatever this one ended of, it was not the job.
            logger.info("the process %d ended before it began job %s: %s", process.pid, run.claim.id, how)
        logger.error("no process could be started for job %s: it is tried again in %s", run.claim.id, AGAIN_AFTER)
        return self._executor.conclude(run, StoppedByWorker() if self._is_closed else Snooze(AGAIN_AFTER))

    def close(self) -> None:
        """End all that have nothing to do. Those that run a job end with it."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.kill()
            process.end()

    def _take_idle(self) -> IsolatedProcess | None:
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None or idle.is_usable():
                return idle
            idle.end()

    def _start(self) -> IsolatedProcess | None:
        if self._is_closed:
            return None
        try:
            process = IsolatedProcess(self._command, self._folder)
        except OSError as error:
            logger.error("no process for isolated jobs could be started: %s", error)
            return None
        if process.wait_until_ready(START_WITHIN):
            return process
        process.kill()
        logger.error("the process %d for isolated jobs did not load the application: %s", process.pid, process.end())
        return None

    def _keep(self, process: IsolatedProcess, *, is_spent: bool) -> None:
        with self._lock:
            if not self._is_closed and not is_spent:
                self._idle.append(process)
                return
        process.kill()
        process.end()

    def _hear(self, run: Run, report: Report, on_start: Callable[[], object]) -> None:
        if isinstance(report, Started):
            on_start()
            self._executor.note_start(run)
            run.repeat_notices()
        elif isinstance(report, Progressed):
            run.context.reported = report.value

    def _settle(self, run: Run, report: Ended) -> Settlement:
        self._executor.note_end(run)
        breaker = run.definition.constraints.breaker
        policy = None if breaker is None else breaker.policy
        return settlement(report, run.claim, keeps_history=run.definition.keeps_history, breaker=policy)

    def _died(self, run: Run, process: IsolatedProcess, how: str) -> Settlement:
        if not run.is_given_up:  # else it was killed here, and why has been said
            logger.error("the process %d of job %s (%s) died: %s", process.pid, run.claim.id, run.claim.job.type, how)
        # Perhaps behind its ctx.transaction(), of which nobody here has heard.
        run.context.may_be_completed = True
        return self._executor.conclude(run, IsolatedProcessDied(f"its process died: {how}"))

    def _command(self, descriptor: int) -> Sequence[str]:
        return [sys.executable, "-m", "onward", "-A", self._application, "isolated_process", str(descriptor), str(os.getpid()), self._paths]
