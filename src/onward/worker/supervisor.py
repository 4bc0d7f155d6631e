"""Keeps worker processes alive: starts them, replaces dead ones, passes signals on, and takes back what a dead one held.

Imports no application code, so nothing an application does can bring it down, and no store before there is something to take back:
what does nothing but wait should take no memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from onward.errors import OnwardError, StoreError
from onward.worker.child import QUIT_AT_ONCE, Child, ChildPipes

if TYPE_CHECKING:
    from onward.driver import Store
    from onward.turn import Swept

logger = logging.getLogger("onward.worker")

FIRST_BACK_OFF, LONGEST_BACK_OFF = 1.0, 30.0
BACK_OFF_AFTER_A_JOB = 0.1
"""Seconds. There are no more such deaths than jobs, since each takes those that had begun out of the next process."""
STEADY_AFTER = 60.0
"""A process that lived this long had a good start: its death is not held against its successor."""
OVERTIME = 0.45
"""Seconds beyond the grace until a process is killed."""
LAST_WRITES = 0.4
"""Seconds to take back what a killed one held; a slow disk took more than 0.2 once in 150 stops. Our own end takes 0.03 of what is left."""
TAKEN_BACK_WITHIN = 2.0
"""Seconds that a successor waits for what the dead one held: a drain would find nothing due, and end before it is."""
LOOK_EVERY = 0.02
"""Seconds between two looks whether it is taken back."""
KILL_AGAIN = 0.5
"""Seconds until what was killed and is still there is killed once more."""
HOPELESS = frozenset({2, 3, 4, 5})
"""Exit codes of a first start that no repetition mends: wrong options, store unusable, application not found, schema out of date."""
PASSED_ON = (signal.SIGUSR1, signal.SIGTTIN)
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *PASSED_ON)


class ProcessSlot:
    """Room for one worker process. Instants are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.child: Child | None = None
        self.failures = 0
        self.start_at = 0.0
        self.taking_back: threading.Thread | None = None
        """Takes back what the process before held; the next one starts after it, or ``TAKEN_BACK_WITHIN`` after the death."""
        self.died_at = 0.0
        self.is_done = False
        """Its work has come to its end by itself."""


class Supervisor:
    """``command`` gives the command line of a process, ``concurrency`` is how many jobs each runs at once.

    ``grace`` is in seconds, None waits for ever. ``open_store`` makes the store of a URL that a child reports, to take back claims, and
    ``on_swept`` is told what became of them, and gives lines for a worker process, which tells the application: none is here.
    """

    def __init__(
        self,
        command: Callable[[ChildPipes], Sequence[str]],
        *,
        processes: int,
        grace: float | None,
        concurrency: int,
        open_store: Callable[[str], Store],
        on_swept: Callable[[Swept], Sequence[bytes]],
    ) -> None:
        self._command = command
        self._slots = [ProcessSlot() for _ in range(processes)]
        self._grace = grace
        self._concurrency = concurrency
        self._open_store = open_store
        self._on_swept = on_swept
        self._exit_code = 0
        self._is_stopping = False
        self._kill_at: float | None = None
        self._over_at: float | None = None
        """When a stop is over, also where the store does not answer."""
        self._has_started_one = False
        self._recoveries: list[threading.Thread] = []
        self._untold: deque[bytes] = deque()

    def run(self, *, is_last: bool = False) -> int:
        """Supervise until a signal ends it, or all work is done. Gives the exit code. For the main thread.

        ``is_last`` says that the program ends with it: one more signal would only spoil its exit code, and is ignored from then on.
        """
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        before = {number: signal.signal(number, _note) for number in HANDLED}
        before_wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)  # they waited while this program was loaded
        try:
            self._supervise(reader)
        finally:
            signal.set_wakeup_fd(before_wakeup)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if is_last else handler)
            os.close(reader)
            os.close(writer)
            self._wait_for_recoveries()
        return self._exit_code

    def _supervise(self, signals: int) -> None:
        while True:
            self._start_what_is_due()
            if not any(slot.child is not None or self._will_start(slot) for slot in self._slots):
                return
            self._tell()
            children = [slot.child for slot in self._slots if slot.child is not None]
            readable, _, _ = select.select([signals, *(child.report for child in children if child.is_talking)], [], [], self._pause())
            for child in children:
                if child.report in readable:
                    child.listen()
                    self._has_started_one = self._has_started_one or child.is_ready
            with contextlib.suppress(BlockingIOError):
                for number in os.read(signals, 512):
                    self._on_signal(number)
            self._reap()
            self._kill_what_outlives_the_grace()

    def _pause(self) -> float | None:
        """Seconds until something is due by the clock; None when only a child or a signal can make a difference."""
        now = time.monotonic()
        due = [now + LOOK_EVERY if self._still_takes_back(slot) else slot.start_at for slot in self._slots if self._will_start(slot)]
        if self._kill_at is not None:
            due.append(self._kill_at)
        return max(min(due) - time.monotonic(), 0.0) if due else None

    # -- start -----------------------------------------------------------------------------------------------------

    def _will_start(self, slot: ProcessSlot) -> bool:
        return slot.child is None and not slot.is_done and not self._is_stopping

    def _start_what_is_due(self) -> None:
        for slot in self._slots:
            if not self._has_started_one and any(one.child is not None for one in self._slots):
                return  # a first one shows whether the application can be loaded, and says so once if not
            if self._will_start(slot) and slot.start_at <= time.monotonic() and not self._still_takes_back(slot):
                self._start(slot)

    def _still_takes_back(self, slot: ProcessSlot) -> bool:
        thread = slot.taking_back
        return thread is not None and thread.is_alive() and time.monotonic() < slot.died_at + TAKEN_BACK_WITHIN

    def _start(self, slot: ProcessSlot) -> None:
        try:
            slot.child = Child(self._command, nonce=os.urandom(4).hex(), size=self._concurrency)
        except OSError as error:  # too many processes or open files, too little memory: it may be different soon
            slot.failures += 1
            pause = back_off(slot.failures, was_ready=False)
            slot.start_at = time.monotonic() + pause
            logger.error("no worker process could be started, next try in %.0f s: %s", pause, error)

    # -- the end of a child ------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for slot in self._slots:
            child = slot.child
            if child is not None and child.has_ended():
                slot.child = None
                self._has_started_one = self._has_started_one or child.is_ready
                if not child.is_ready:
                    self._untold.extendleft(reversed(child.told))
                slot.taking_back, slot.died_at = self._take_back(child), time.monotonic()
                self._after_death(slot, child)
                child.close()

    def _after_death(self, slot: ProcessSlot, child: Child) -> None:
        if self._is_stopping:
            return
        if child.is_done:
            slot.is_done = True
        elif child.code in HOPELESS and not child.is_ready and not self._has_started_one:
            self._exit_code = child.code
            self._stop()
        else:
            slot.failures = 1 if child.age >= STEADY_AFTER else slot.failures + 1
            pause = back_off(slot.failures, was_ready=child.is_ready)
            if child.started.ids():
                # Probably one of these jobs did it, and they are isolated from now on: the others need not wait.
                pause = min(pause, BACK_OFF_AFTER_A_JOB)
            slot.start_at = time.monotonic() + pause
            logger.error("worker process %d ended with %s: a new one starts in %.1f s", child.pid, child.how_it_ended, pause)

    def _take_back(self, child: Child) -> threading.Thread | None:
        if child.store_url is None:
            return None
        # A process that was killed because its grace was over did nothing wrong, so its jobs do not count it as a loss.
        started = [] if child.was_killed or child.has_given_back else child.started.ids()
        thread = threading.Thread(target=self._recover, args=(child.store_url, child.lease_owner, started), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread more is to be had, by a limit or for want of memory
            logger.error("the jobs of %s could not be taken back (%s): their leases will run out", child.lease_owner, error)
            return None
        self._recoveries = [one for one in self._recoveries if one.is_alive()] + [thread]
        return thread

    def _recover(self, url: str, lease_owner: str, started: list[str]) -> None:
        pause = 0.1
        try:
            store = self._open_store(url)
            if not store.exists():
                logger.error("the jobs of %s could not be taken back: there is no %s any more", lease_owner, store.url)
                return
            while True:
                try:
                    swept = store.recover(lease_owner, started)
                    break
                except StoreError as error:
                    logger.warning("the jobs of %s are not taken back yet: %s", lease_owner, error)
                    time.sleep(pause)
                    pause = min(pause * 2, LONGEST_BACK_OFF)
            store.close()
        except Exception:
            logger.exception("the jobs of %s could not be taken back: their leases will run out", lease_owner)
            return
        for job in (*swept.requeued, *swept.dead_lettered, *swept.cancelled):
            logger.warning("job %s of type %s was taken back from %s: %s", job.id, job.type, lease_owner, job.status)
        self._untold.extend(self._on_swept(swept))

    def _tell(self) -> None:
        """Hand on what was taken back, to a process that works or that will read it before it does."""
        children = [slot.child for slot in self._slots if slot.child is not None]
        for child in sorted(children, key=lambda one: not one.is_ready):
            while self._untold and child.tell(self._untold[0]):
                self._untold.popleft()

    def _wait_for_recoveries(self) -> None:
        until = time.monotonic() + LAST_WRITES if self._over_at is None else self._over_at
        for thread in self._recoveries:
            thread.join(max(until - time.monotonic(), 0.0))

    # -- stop --------------------------------------------------------------------------------------------------------

    def _on_signal(self, number: int) -> None:
        if number in PASSED_ON:
            self._send(number)
        elif number == signal.SIGINT and self._is_stopping:
            self._exit_code = QUIT_AT_ONCE
            self._end_within(0.0)
            self._send(signal.SIGINT)
            logger.warning("second SIGINT: quitting at once")
        elif number in (signal.SIGTERM, signal.SIGINT) and not self._is_stopping:
            self._stop(number)
            logger.info("%s: stopping", signal.Signals(number).name)

    def _stop(self, number: int = signal.SIGTERM) -> None:
        self._is_stopping = True
        if self._grace is not None:
            self._end_within(self._grace)
        for slot in self._slots:
            if slot.child is not None:
                # A process that still imports has no handlers, and dies of SIGTERM in silence, of SIGINT with a traceback.
                slot.child.send(number if slot.child.is_ready else signal.SIGTERM)
        urls = {slot.child.store_url for slot in self._slots if slot.child is not None}
        with contextlib.suppress(RuntimeError):  # no thread more is to be had
            threading.Thread(target=self._warm_up, args=(urls,), daemon=True).start()

    def _end_within(self, grace: float) -> None:
        """Never later than an earlier signal said: whoever presses Ctrl-C again and again wants the end, and must not put it off."""
        kill_at = time.monotonic() + grace + OVERTIME
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        self._over_at = self._kill_at + LAST_WRITES

    def _warm_up(self, urls: set[str | None]) -> None:
        """Load and open now what taking back needs: after a kill there is less than half a second for it."""
        for url in urls - {None}:
            with contextlib.suppress(OnwardError):
                store = self._open_store(str(url))
                if store.exists():  # a file that was moved away must not be made anew, and empty
                    store.open()
                store.close()

    def _send(self, number: int) -> None:
        for slot in self._slots:
            # A process that is not ready has no handler for a dump yet: the signal would kill it.
            if slot.child is not None and (number not in PASSED_ON or slot.child.is_ready):
                slot.child.send(number)

    def _kill_what_outlives_the_grace(self) -> None:
        if self._kill_at is None or time.monotonic() < self._kill_at:
            return
        for slot in self._slots:
            if slot.child is not None:
                logger.error("worker process %d did not end within its grace and is killed", slot.child.pid)
                slot.child.kill()
        self._kill_at = time.monotonic() + KILL_AGAIN


def back_off(failures: int, *, was_ready: bool) -> float:
    """Seconds until a new process starts after so many early deaths in a row. The first that had come to work is replaced at once."""
    doublings = failures - 2 if was_ready else failures - 1
    if doublings < 0:
        return 0.0
    return FIRST_BACK_OFF * 2.0**doublings if doublings < 5 else LONGEST_BACK_OFF


def _note(number: int, frame: FrameType | None) -> None:
    """The number is in the wake-up pipe already; this only keeps the signal from its default action."""
