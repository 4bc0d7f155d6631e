"""Group commit: enqueues that arrive while a commit is under way share the next one.

A lone caller commits for itself, without a thread hop (which would cost it 10 to 30 %). Callers that come meanwhile wait, each for
its own answer; when that commit is done, the first of them leads, and takes all the others along. Awaiting callers share one thread,
which answers a whole batch with one call into their loop (a call per future halves the rate at 256 callers).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onward.driver import Driver
from onward.errors import OutcomeUnknown, TransactionOpen
from onward.jobs import Accepted, NewJob

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from concurrent.futures import ThreadPoolExecutor

Answer = list[Accepted] | BaseException
LARGEST_GROUP = 1000
COMPANY = 4
"""Callers in one commit and behind it from which on the next one waits for those answered just now: most of them ask again at once."""
LONGEST_GATHERING = 0.005
"""Seconds that it waits for them, and no longer than three quarters of what the commit before took."""
KEYED_AT_ONCE = 8


class _Request:
    """Jobs that are accepted or refused together, and the answer once there is one."""

    __slots__ = ("answer", "future", "jobs", "loop", "turn")

    def __init__(self, jobs: Sequence[NewJob], loop: AbstractEventLoop | None = None, future: Future[list[Accepted]] | None = None) -> None:
        self.jobs = jobs
        self.loop = loop
        self.future = future
        self.answer: Answer | None = None
        self.turn: threading.Lock | None = None
        """Held until there is an answer, or this request is to lead; None for one that need not wait."""

    def resolve(self) -> None:
        """Hand the answer to an awaiting caller. Runs on its loop; the caller may have given up."""
        if self.future is None or self.future.done():
            return
        if isinstance(self.answer, BaseException):
            self.future.set_exception(self.answer)
        else:
            self.future.set_result(self.answer or [])


class GroupCommit:
    """The one way in for enqueues that commit by themselves."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._gate = threading.Condition()
        self._leading = threading.Lock()
        self._leader: _Request | None = None
        self._is_gathering = False
        self._crowd, self._last_took = 0, 0.0
        self._waiting: list[_Request] = []
        self._awaiting: list[_Request] = []
        self._thread: threading.Thread | None = None
        self._keyed: ThreadPoolExecutor | None = None
        self._closed = False

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Accept these jobs, all or none. Blocks until they are committed, or raises what refused them."""
        self._check_process()
        self._check_not_inside()
        if self._goes_alone(jobs):
            return self._driver.enqueue(jobs)
        request = _Request(jobs)
        try:
            self._line_up(request)
            if request.turn is not None:
                request.turn.acquire()
            elif self._crowd < COMPANY:
                with self._leading:
                    return self._driver.enqueue(jobs)
            if self._leader is request:
                self._lead(request)
            return _unwrap(request.answer)
        finally:
            self._step_back(request)

    def _line_up(self, request: _Request) -> None:
        """Take the lead if nobody has it."""
        with self._gate:
            if self._leader is None:
                self._leader = request
                return
            request.turn = threading.Lock()
            request.turn.acquire()
            self._waiting.append(request)
            if self._is_gathering:
                self._gate.notify()

    def _lead(self, request: _Request) -> None:
        """Commit for all that wait, and wake them."""
        with self._leading:
            self._gather(request)
            batch = self._take(self._waiting)
            if request not in batch:  # it took the lead without having to wait
                batch.insert(0, request)
            began = time.monotonic()
            try:
                self._commit(batch)
            finally:
                self._crowd, self._last_took = len(batch) + len(self._waiting), time.monotonic() - began
                for one in batch:
                    if one.answer is None:
                        one.answer = _unknown("the thread that committed for this one was interrupted", one)
                    if one is not request and one.turn is not None:
                        one.turn.release()

    def _gather(self, leader: _Request) -> None:
        """Give those that were answered just now the time to ask again: else they would have to wait for a commit of very few."""
        if self._crowd < COMPANY:
            return
        others = self._crowd if leader.turn is not None else self._crowd - 1  # one that had to wait is among those that do
        with self._gate:
            self._is_gathering = True
            self._gate.wait_for(lambda: len(self._waiting) >= others, min(self._last_took * 3 / 4, LONGEST_GATHERING))
            self._is_gathering = False

    def _step_back(self, request: _Request) -> None:
        """Hand on the lead if this request has it. Whatever ended its wait, it waits no longer."""
        if request.answer is None or self._leader is request:
            with self._gate:
                if request in self._waiting:
                    self._waiting.remove(request)
                if self._leader is request:
                    self._leader = self._waiting[0] if self._waiting else None
                    if self._leader is not None and self._leader.turn is not None:
                        self._leader.turn.release()

    def enqueue_awaited(self, jobs: Sequence[NewJob]) -> Future[list[Accepted]]:
        """The same for a caller on an event loop, which awaits what this gives."""
        from asyncio import get_running_loop

        self._check_process()
        self._check_not_inside()
        loop = get_running_loop()
        if self._goes_alone(jobs):
            return loop.run_in_executor(self._threads_of_keyed(), self._driver.enqueue, jobs)
        request = _Request(jobs, loop, loop.create_future())
        assert request.future is not None
        with self._gate:
            self._awaiting.append(request)
            if self._thread is None:
                self._closed = False
                self._thread = threading.Thread(target=self._serve, name="onward-commit", daemon=True)
                self._thread.start()
            self._gate.notify_all()
        return request.future

    def _goes_alone(self, jobs: Sequence[NewJob]) -> bool:
        """Whether to keep this request out of the group: it may wait for a key that somebody else's open transaction holds."""
        return self._driver.capabilities.waits_for_keys and any(job.key is not None for job in jobs)

    def _threads_of_keyed(self) -> ThreadPoolExecutor:
        # Threads of our own: the loop's are the application's, and a key may have to be waited for.
        from concurrent.futures import ThreadPoolExecutor

        with self._gate:
            if self._keyed is None:
                self._keyed = ThreadPoolExecutor(KEYED_AT_ONCE, thread_name_prefix="onward-keyed")
            return self._keyed

    @property
    def waiting(self) -> int:
        """How many requests wait for the next commit."""
        with self._gate:
            return len(self._waiting) + len(self._awaiting)

    def close(self) -> None:
        """End the thread of the awaiting callers, once it has answered them."""
        with self._gate:
            self._closed = True
            self._gate.notify_all()
            thread, keyed = self._thread, self._keyed
            self._keyed = None
        if keyed is not None:
            keyed.shutdown()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _serve(self) -> None:
        while True:
            with self._gate:
                while not self._awaiting and not self._closed:
                    self._gate.wait()
                if not self._awaiting:
                    self._thread = None
                    return
            batch = self._take(self._awaiting)
            with self._leading, suppress(BaseException):  # the answers carry it; the thread has nobody to raise to
                self._commit(batch)
            _answer_awaiting(batch)

    def _take(self, waiting: list[_Request]) -> list[_Request]:
        with self._gate:
            batch = waiting[:LARGEST_GROUP]
            del waiting[:LARGEST_GROUP]
        return batch

    def _commit(self, batch: list[_Request]) -> None:
        """Commit a batch and fill in every answer. A leader that dies fails its riders; it never leaves them waiting."""
        try:
            for request, answer in zip(batch, self._driver.enqueue_each([request.jobs for request in batch]), strict=True):
                request.answer = answer
        except Exception as error:  # noqa: BLE001  every rider is told
            for request in batch:
                request.answer = error if len(batch) == 1 else _own_error(error, request)
        except BaseException:
            for request in batch:
                request.answer = _unknown("the thread that committed for this one was interrupted", request)
            raise

    def _check_not_inside(self) -> None:
        if self._driver.inside_transaction:
            raise TransactionOpen(
                "this thread is inside a transaction of the same store, so the job would wait for itself: "
                "pass within=connection, or in a handler use ctx.enqueue"
            )

    def _check_process(self) -> None:
        # After a fork the parent's threads are gone and its locks may be held for ever.
        if self._process != os.getpid():
            self._reset()


def _own_error(error: Exception, request: _Request) -> BaseException:
    """An exception of its own for each caller: one object raised in several threads would mix up their tracebacks."""
    if isinstance(error, OutcomeUnknown):
        return _unknown(str(error), request)
    try:
        own = type(error)(*error.args)
    except Exception:  # noqa: BLE001  an error whose arguments do not make another one is shared
        return error
    own.__cause__ = error
    return own


def _unknown(why: str, request: _Request) -> OutcomeUnknown:
    return OutcomeUnknown(why, job_ids=tuple(job.id for job in request.jobs))


def _unwrap(answer: Any) -> list[Accepted]:
    if isinstance(answer, BaseException):
        raise answer
    accepted: list[Accepted] = answer
    return accepted


def _answer_awaiting(batch: list[_Request]) -> None:
    by_loop: dict[AbstractEventLoop, list[_Request]] = {}
    for request in batch:
        if request.loop is not None:
            by_loop.setdefault(request.loop, []).append(request)
    for loop, requests in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve_all, requests)
        except RuntimeError:  # the loop is closed: nobody awaits any more
            continue


def _resolve_all(requests: list[_Request]) -> None:
    for request in requests:
        request.resolve()
