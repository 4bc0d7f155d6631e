"""Where handlers run: up to ``size`` at once, sync ones in threads, async ones on one event loop, counted together.

A run is *waiting* (claimed, not started), then *inside* (its handler runs). While it is also *open*, its outcome is ours to send:
whoever takes it out of ``_open`` first, the handler's end or a deadline, is the one that settles it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from onward.outcome import Snooze, StoppedByWorker
from onward.turn import Settlement
from onward.worker.event_loop import EventLoop
from onward.worker.executor import Executor
from onward.worker.gathered_ring import GatheredRing
from onward.worker.isolated_processes import AGAIN_AFTER, IsolatedProcesses
from onward.worker.isolation import Answer, Isolation
from onward.worker.run import Run
from onward.worker.settlement import unconcluded
from onward.worker.started import StartedJobs
from onward.worker.threads import Threads

logger = logging.getLogger("onward.worker")

Ended = tuple[Run, Settlement]


class Slots:
    """Starts claims as slots get free and keeps what ended until it is taken. ``ring`` is called when something ended.

    An isolated run goes to one of ``processes``; without those it has this process to itself.
    """

    def __init__(
        self,
        size: int,
        executor: Executor,
        ring: Callable[[], object],
        isolation: Isolation,
        *,
        started: StartedJobs | None = None,
        processes: IsolatedProcesses | None = None,
    ) -> None:
        self.size = size
        self._executor = executor
        self._ring = ring
        self._isolation = isolation
        self._started = started
        self._processes = processes
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[Run] = deque()
        self._inside: dict[Run, None] = {}
        self._open: dict[Run, None] = {}
        self._alone: Run | None = None
        self._ended: deque[Ended] = deque()
        self._unsettled: set[Run] = set()
        """Ended, but not stored yet: if the process dies now, their claims go down with it."""
        self._threads = Threads(self._work)
        self._loop = EventLoop()
        self._gathered_ring = GatheredRing(ring)

    # -- what is where -------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True when nothing waits, runs, or is to be settled."""
        return not (self._waiting or self._open or self._ended)

    @property
    def has_open(self) -> bool:
        """True while a handler runs whose outcome we wait for."""
        return bool(self._open)

    @property
    def has_ended(self) -> bool:
        return bool(self._ended)

    @property
    def has_too_many_stuck(self) -> bool:
        """True when half of the slots or more are held by handlers that are given up."""
        return 2 * (len(self._inside) - len(self._open)) >= self.size

    @property
    def needs_new_process(self) -> bool:
        """True when a handler that is given up keeps a job from running alone, or is itself one that must have no neighbours."""
        with self._lock:
            if len(self._inside) == len(self._open):
                return False
            is_alone_and_given_up = self._alone in self._inside and self._alone not in self._open
            return is_alone_and_given_up or any(map(self._must_be_alone, self._waiting))

    def held(self) -> list[Run]:
        """Every claim whose lease must be renewed."""
        with self._lock:
            return [*self._open, *self._waiting]

    def known(self) -> set[tuple[str, int]]:
        """Every claim that is here in any way, given up ones and ended ones included."""
        with self._lock:
            return {run.key for run in (*self._inside, *self._waiting, *(run for run, _ in self._ended))}

    def room(self, prefetch: int) -> int:
        """How many more claims to ask for. None beside a job that runs alone."""
        with self._lock:
            has_stuck = len(self._inside) > len(self._open)
            if self._alone is not None or (not has_stuck and any(map(self._must_be_alone, self._waiting))):
                return 0
            return max(self.size + prefetch - len(self._inside) - len(self._waiting), 0)

    # -- start and end -------------------------------------------------------------------------------------------

    def start(self, runs: Iterable[Run]) -> None:
        """Start these in order, as soon as there is room."""
        with self._lock:
            self._pid = os.getpid()
            before = len(self._waiting)
            self._waiting.extend(runs)
            if len(self._inside) > len(self._open):
                self._unmark_older({run.claim.id for run in itertools.islice(self._waiting, before, None)})
            picked = self._pick()
        self._dispatch(picked)

    def take_ended(self) -> list[Ended]:
        """Take what ended since the last time."""
        taken = []
        while self._ended:
            taken.append(self._ended.popleft())
        return taken

    def take_waiting(self) -> list[Run]:
        """Take back what has not started."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
        return taken

    def end_early(self, run: Run, ending: object) -> None:
        """Settle a run with ``ending`` though its handler is still inside; it keeps its slot until it ends. Its own process is killed."""
        with self._lock:
            is_ours = self._open.pop(run, self) is None
            if is_ours:
                self._unsettled.add(run)
            picked = self._free_from(run)
        self._dispatch(picked)
        if is_ours:
            run.give_up()
            self._ended.append((run, self._conclude(run, ending)))
            self._ring()

    def lose(self, run: Run) -> bool:
        """The claim is not ours any more: tell the handler and send no outcome. False when that was known, or the run has ended."""
        with self._lock:
            was_ours = self._open.pop(run, self) is None
            if run in self._waiting:
                self._waiting.remove(run)
                was_ours = True
            run.is_lost = run.is_lost or was_ours
            # A lost one that runs alone stays alone: its row may still name us, and what a neighbour did would be held against it.
            picked = [] if self._alone is run else self._free_from(run)
        self._dispatch(picked)
        if was_ours:
            run.lose_lease()
            self.forget([run])
        return was_ours

    def cancel(self, run: Run, at: datetime, now: float) -> None:
        """A person asked for it: tell the handler; an async one is cancelled, and one that has not begun never does."""
        run.cancel(at, now)
        with self._lock:
            has_begun = run not in self._waiting
            if not has_begun:
                self._waiting.remove(run)
                self._ended.append((run, self._conclude(run, StoppedByWorker())))
            picked = self._pick()  # it may have kept others waiting, by having to run alone
        self._dispatch(picked)
        if not has_begun:
            self._ring()
        elif run.definition.is_async and run.process is None:
            self._loop.call(run.cancel_task)

    def forget(self, runs: Iterable[Run]) -> None:
        """Their outcomes are stored, or not ours to store."""
        with self._lock:
            for run in runs:
                self._unsettled.discard(run)
                if run not in self._inside:
                    self._unmark(run)
            picked = self._pick() if self._waiting and not self._unsettled else []
        self._dispatch(picked)

    # -- stop ----------------------------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Make ``ctx.should_stop`` true for all that run."""
        for run in self.held():
            run.ask_to_stop()

    def cancel_tasks(self) -> None:
        """Cancel every async handler; it gives its job back unless it still comes to an end."""
        for run in self.held():
            if run.definition.is_async:
                run.give_back()
                if run.process is None:
                    self._loop.call(run.cancel_task)

    def abandon(self) -> None:
        """Give back every job whose handler has not ended."""
        with self._lock:
            runs = list(self._open)
        for run in runs:
            self.end_early(run, StoppedByWorker())

    def close(self) -> bool:
        """Let threads and loop end once nothing is inside. False when a handler is, so that they cannot. Idempotent."""
        self._threads.close()
        self._loop.close()
        if self._processes is not None:
            self._processes.close()
        return not self._inside

    # -- the way of a run ----------------------------------------------------------------------------------------

    def _pick(self) -> list[Run]:
        """Choose what starts now. The caller holds the lock."""
        picked: list[Run] = []
        held_back: list[Run] = []
        while self._waiting and len(self._inside) < self.size and self._alone is None:
            run = self._waiting.popleft()
            if self._must_be_alone(run):
                if len(self._inside) > len(self._open):
                    # A handler that is given up may never end, and may still kill the process: the others need not wait for that.
                    held_back.append(run)
                    continue
                # Whatever is not stored yet would be harmed by the death of the process, as if it still ran.
                if self._inside or self._unsettled:
                    self._waiting.appendleft(run)
                    self._isolation.warn(run)
                    break
                self._alone = run
            self._inside[run] = self._open[run] = None
            picked.append(run)
        self._waiting.extendleft(reversed(held_back))
        return picked

    def _free_from(self, run: Run) -> list[Run]:
        """Choose what starts now that ``run`` has ended or is given up. The caller holds the lock."""
        if self._alone is run:
            self._alone = None
        return self._pick() if self._waiting else []

    def _must_be_alone(self, run: Run) -> bool:
        """True for an isolated run where there is no other process for it: then nothing else runs in this one."""
        return run.claim.job.isolated and self._processes is None

    def _dispatch(self, picked: list[Run]) -> None:
        while picked:  # once, but where runs cannot be started: then others take their slots, thousands perhaps
            tasks: list[Run] = []
            others: list[Run] = []
            for run in picked:
                if _goes_to_loop(run):
                    tasks.append(run)
                else:
                    others += self._hand_over([run], partial(self._threads.put, run))
            if tasks:
                others += self._hand_over(tasks, partial(self._loop.call, partial(self._begin_tasks, tasks)))
            picked = others

    def _hand_over(self, runs: list[Run], begin: Callable[[], object]) -> list[Run]:
        """Where no thread or event loop can be had, the runs must not stay: nobody would ever end them, and their leases be renewed.

        A limit on threads is a ``RuntimeError``, one on open files an ``OSError``; whatever else it may be, the same holds. Gives the
        runs that take their slots.
        """
        try:
            begin()
            return []
        except Exception as error:  # noqa: BLE001 - as above
            logger.error("%d jobs could not be started, they are tried again in %s: %s", len(runs), AGAIN_AFTER, error)
        picked = [one for run in runs for one in self._leave(run, self._conclude(run, Snooze(AGAIN_AFTER)))]
        self._ring()
        return picked

    def _work(self, first: Run) -> None:
        """The life of a thread from one idle moment to the next."""
        run: Run | None = first
        while run is not None:
            settlement = self._execute(run)
            if settlement is None:
                return
            picked = self._leave(run, settlement)
            del settlement
            self._ring()
            run = next((one for one in picked if not _goes_to_loop(one)), None)
            if run is not None:
                picked.remove(run)
            self._dispatch(picked)

    def _execute(self, run: Run) -> Settlement | None:
        """Run a sync handler to its end. An async one that runs alone is handed on to the loop: None."""
        try:
            if run.cancel_requested_at is not None:
                return self._conclude(run, StoppedByWorker())
            if run.claim.job.isolated and self._processes is not None:
                return self._processes.run(run, lambda: self._mark(run))
            if run.claim.job.isolated and not self._begin_alone(run):
                return self._conclude(run, StoppedByWorker())
            if run.definition.is_async:
                self._dispatch(self._hand_over([run], partial(self._loop.call, partial(self._begin_tasks, [run]))))
                return None
            self._mark(run)
            return self._executor.execute(run)
        except BaseException as error:  # noqa: BLE001 - the last resort: a slot must come free whatever happened
            return unconcluded(run.claim, error)

    def _begin_alone(self, run: Run) -> bool:
        """Write that the run starts alone, before it does. False when it must not start."""
        answer = self._isolation.begin(run)
        if answer is Answer.LOST:
            self.lose(run)
        elif answer is Answer.CANCELLED:
            run.cancel_requested_at = self._executor.now()
        return answer is Answer.START and run in self._open

    def _conclude(self, run: Run, ending: object) -> Settlement:
        try:
            return self._executor.conclude(run, ending)
        except BaseException as error:  # noqa: BLE001 - as above
            return unconcluded(run.claim, error)

    def _begin_tasks(self, runs: list[Run]) -> None:
        for run in runs:
            # Known to the run only from its first step on (see Executor): a task cancelled before that would never get here at all.
            # Until then the loop's own queue keeps it alive.
            asyncio.get_running_loop().create_task(self._run_task(run))

    async def _run_task(self, run: Run) -> None:
        try:
            if run.cancel_requested_at is not None or run.was_cancelled_by_stop:
                settlement = self._executor.conclude(run, StoppedByWorker())
            else:
                self._mark(run)
                settlement = await self._executor.execute_async(run)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            settlement = unconcluded(run.claim, error)
        picked = self._leave(run, settlement)
        self._gathered_ring.ask(can_wait=bool(self._waiting))
        tasks = [one for one in picked if _goes_to_loop(one)]
        if len(tasks) < len(picked):
            self._dispatch([one for one in picked if not _goes_to_loop(one)])
        self._begin_tasks(tasks)

    def _leave(self, run: Run, settlement: Settlement) -> list[Run]:
        """A handler has ended: keep its outcome if it is ours to send, and choose who takes the slot."""
        if os.getpid() != self._pid:
            os._exit(0)  # a handler forked, and this is its child: every claim here is its parent's
        with self._lock:
            del self._inside[run]
            if self._open.pop(run, self) is None:
                self._unsettled.add(run)
                self._ended.append((run, settlement))
            elif run not in self._unsettled:
                self._unmark(run)
            picked = self._free_from(run)
        if run.is_lost:
            logger.warning("job %s ended without its lease: its outcome is not sent", run.claim.id)
        return picked

    def _mark(self, run: Run) -> None:
        if self._started is not None:
            run.mark = self._started.add(run.claim.job.id)

    def _unmark_older(self, ids: set[str]) -> None:
        """Forget the mark of a given-up handler whose job is claimed anew: the mark would pass for one of a claim that only waits."""
        for run in self._inside:
            if run.claim.id in ids and run not in self._open:
                self._unmark(run)

    def _unmark(self, run: Run) -> None:
        """Forget that it started: its outcome is stored, or not ours to store, and its handler is out. The caller holds the lock."""
        if self._started is not None and run.mark is not None:
            self._started.remove(run.mark)
            run.mark = None


def _goes_to_loop(run: Run) -> bool:
    """False also for an async run that is isolated: it has a loop of its own, or the store is told first, which would block this one."""
    return run.definition.is_async and not run.claim.job.isolated
