"""Cases spread over two processes: as many as the machine of the project's CI has cores."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
AT_ONCE = 2


def in_two_processes(work: Callable[..., T], cases: Sequence[tuple[object, ...]], *, here: bool = False) -> Iterator[T]:
    """Call ``work`` with the arguments of each case, and give the answers in order. Its processes are spawned: none inherits a store.

    ``here`` makes none, for a few cases that take less time than they would.
    """
    return in_processes(work, cases, 0 if here else AT_ONCE)


def in_processes(work: Callable[..., T], cases: Sequence[tuple[object, ...]], at_once: int) -> Iterator[T]:
    """The same in as many processes; in this one for 0, or for a single case."""
    if not at_once or len(cases) == 1:
        for case in cases:
            yield work(*case)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context, initializer=leave_in_good_order) as pool:
        for future in [pool.submit(work, *case) for case in cases]:
            yield future.result()


def leave_in_good_order() -> None:
    """A process that is told to end takes along what it has started."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
