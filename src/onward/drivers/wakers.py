"""A waker for each thread that waits: several workers may share a store, and none may take the wake that was another's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from weakref import ReferenceType, ref

from onward.drivers.fork import Forked


class CanBeWoken(Protocol):
    """What one thread waits with."""

    def wake(self) -> None:
        """End its wait, or the next one. Takes no lock, so a signal handler may call it."""


W = TypeVar("W", bound=CanBeWoken)


class Wakers(Forked, Generic[W]):
    """``make`` makes one. A thread has one from when it claims or waits first, so that nothing is missed in between."""

    def __init__(self, make: Callable[[], W]) -> None:
        self._make = make
        self._made: tuple[tuple[ReferenceType[threading.Thread], W], ...] = ()
        """Replaced, never changed: a signal handler may be reading it."""
        self._was_woken = False
        """Since a thread has come last: the next one looks at once, since those that are here may have ended."""
        self._making = threading.Lock()
        self.follow_forks()

    def reset_after_fork(self) -> None:
        """The child has the thread that forked, and none of the others. Each waker looks after what it has itself."""
        self._making = threading.Lock()
        self._made = self._living()

    def own(self) -> W | None:
        """That of this thread, if it has one."""
        thread = threading.current_thread()
        return next((waker for whose, waker in self._made if whose() is thread), None)

    def mine(self) -> W:
        """That of this thread."""
        if (own := self.own()) is not None:
            return own
        thread = threading.current_thread()
        with self._making:
            waker = self._make()
            self._made = (*self._living(), (ref(thread), waker))
        if self._was_woken:
            self._was_woken = False
            waker.wake()
        return waker

    def all(self) -> tuple[W, ...]:
        """Those of every thread, of ended ones as well."""
        return tuple(waker for _, waker in self._made)

    def living(self) -> tuple[W, ...]:
        """Those of every thread that is there."""
        return tuple(waker for _, waker in self._living())

    def wake(self) -> None:
        """End every wait, or the next one where nobody waits. Safe from any thread and from a signal handler."""
        self._was_woken = True
        for _, waker in self._made:
            waker.wake()

    def _living(self) -> tuple[tuple[ReferenceType[threading.Thread], W], ...]:
        return tuple((whose, waker) for whose, waker in self._made if (thread := whose()) is not None and thread.is_alive())
