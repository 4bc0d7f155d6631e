"""What the process of isolated jobs does: run one after the other, and end with its worker, however that ends."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from typing import Any

from onward.driver import Store
from onward.registry import Registry
from onward.turn import Claim
from onward.worker.executor import Executor
from onward.worker.isolated_messages import (
    Ended,
    Message,
    Notice,
    Order,
    Progressed,
    Ready,
    Report,
    Started,
    ended,
    read_message,
    write_line,
)
from onward.worker.process import FAILED, end_with_parent
from onward.worker.run import Run
from onward.worker.transactions import StoreTransactions

logger = logging.getLogger("onward.worker")

LONGEST_IDLE = 300.0
"""Seconds without a job after which the process is not worth its memory."""
PROGRESS_EVERY = 0.25
OWN_THREADS = 3
"""The main one, the one that hears the worker, and the one that reports progress."""


class IsolatedMain:
    """Runs in the main thread, as handlers of a command-line program do; a thread hears what the worker says meanwhile."""

    def __init__(self, store: Store, definitions: Registry, services: Any, connection: socket.socket) -> None:
        self._store = store
        self._definitions = definitions
        self._services = services
        self._connection = connection
        self._pid = os.getpid()
        self._sending = threading.Lock()
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._current: Run | None = None
        self._changing = threading.Lock()
        self._is_running = threading.Event()

    def run(self) -> None:
        """Run jobs until nothing was to do for long. Does not return when the worker is gone: the process ends then, whatever runs."""
        threading.Thread(target=self._hear, name="onward-worker", daemon=True).start()
        threading.Thread(target=self._report_progress, name="onward-progress", daemon=True).start()
        self._report(Ready())
        while True:
            try:
                order = self._orders.get(timeout=LONGEST_IDLE)
            except queue.Empty:
                return
            try:
                self._report(self._run(order))
            except OSError as error:
                logger.error("how job %s ended cannot be told, since it closed the connection to its worker: %s", order.job.id, error)
                os._exit(FAILED)
            del order

    def _run(self, order: Order) -> Ended:
        executor = Executor(
            self._definitions,
            self._services,
            self._store.clock,
            transactions=StoreTransactions(self._store, self._definitions),
            worker_id=order.lease_owner,
            on_begin=self._begin,
        )
        settlement = executor.run(Claim(order.job, order.lease))
        with self._changing:
            self._current = None
            self._is_running.clear()
        if os.getpid() != self._pid:
            os._exit(0)  # a handler forked, and this is its child
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        return ended(settlement, is_spent=threading.active_count() > OWN_THREADS)

    def _begin(self, run: Run) -> None:
        with self._changing:
            self._current = run
            self._is_running.set()
        self._report(Started())

    def _hear(self) -> None:
        """Take what the worker says. Its end ends this process at once: somebody else may run the job from now on."""
        unread = b""
        with contextlib.suppress(OSError):
            while read := self._connection.recv(65536):
                *lines, unread = (unread + read).split(b"\n")
                for line in lines:
                    self._take(read_message(line))
        os._exit(0)

    def _take(self, message: Message) -> None:
        if isinstance(message, Order):
            self._orders.put(message)
        else:
            self._note(message)

    def _note(self, notice: Notice) -> None:
        with self._changing:
            run = self._current
        if run is None:
            return
        run.context.ask_to_stop()
        if notice.what == "cancelled":
            run.cancel_requested_at = notice.at
        if notice.what == "given_back":
            run.was_cancelled_by_stop = True
        task = run.task
        if notice.what != "stop" and task is not None:
            with contextlib.suppress(RuntimeError):  # its loop has closed meanwhile
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _report_progress(self) -> None:
        """Pass on what the handler says of itself; the last of it comes with the end."""
        told: str | None = None
        while True:
            self._is_running.wait()
            time.sleep(PROGRESS_EVERY)
            with self._changing:
                run = self._current
            progress = None if run is None else run.context.reported
            if progress is not None and progress is not told:
                told = progress
                self._report(Progressed(progress))

    def _report(self, report: Report) -> None:
        with self._sending:
            self._connection.sendall(write_line(report))


def run_isolated(store: Store, definitions: Registry, services: Any, descriptor: int, worker: int) -> None:
    """Run jobs for the worker with this number, over the connection that it left open as ``descriptor``. For the main thread."""
    # A worker that is killed closes the connection, but a handler that holds the GIL would keep the thread from hearing that.
    end_with_parent(signal.SIGKILL)
    if os.getppid() != worker:
        return
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as connection:
        IsolatedMain(store, definitions, services, connection).run()
    sys.stdout.flush()
