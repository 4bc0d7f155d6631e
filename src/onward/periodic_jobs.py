"""``app.periodic``: what a person or a program does to periodic jobs at run time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onward import moments
from onward.awaited import awaited
from onward.definition import check_name
from onward.driver import Store
from onward.errors import InvalidDefinition, PeriodicJobNotFound, StoreBusy, UnknownJobType
from onward.handle import JobHandle
from onward.ids import new_id
from onward.jobs import Accepted
from onward.moments import PeriodicChange, PeriodicLook, PeriodicWritten
from onward.periodic import Periodic, PeriodicJob
from onward.registry import Registry
from onward.spelling import nearest, shown

MOST_TRIES = 100
PAUSE_BETWEEN_TRIES = 0.02
"""Seconds in which the scheduler that was quicker has committed."""


class PeriodicJobs:
    """The periodic jobs of a store: those that the application's code declares, and those that were made at run time.

    What is changed here is known to every worker within a minute. Each verb has a twin for code on an event loop, such as ``alist``.
    """

    def __init__(self, store: Store, definitions: Registry, declared: Iterable[Periodic]) -> None:
        self._store = store
        self._definitions = definitions
        self.declared = _read_declared(declared, definitions)
        """What the code declares, by name. Workers store it when they start."""

    def list(self) -> list[PeriodicJob]:
        """All of them by name, also those that the code declares and no worker has stored yet."""
        look = self._store.periodic()
        stored = {row.name for row in look.rows} | set(look.unreadable)
        fresh = [_fresh(one, look) for one in self.declared.values() if one.name not in stored]
        return sorted([*look.rows, *fresh], key=lambda row: row.name)

    def get(self, name: str) -> PeriodicJob:
        """One of them. Raises ``PeriodicJobNotFound``."""
        return self._row(name, self._store.periodic([check_name("name of a periodic job", name)]))

    def put(self, periodic: Periodic) -> PeriodicJob:
        """Make a periodic job at run time, or replace one that was made so; gives it as it is then.

        Raises ``InvalidDefinition`` for one that code declares, which is to be changed there, and ``UnknownJobType``.
        """
        if not isinstance(periodic, Periodic):
            raise InvalidDefinition(f"put takes a Periodic(definition, ...), not {shown(periodic)}")
        _check_known(periodic, self._definitions)

        def change(look: PeriodicLook) -> PeriodicChange | None:
            stored = look.rows[0] if look.rows else None
            is_of_code = periodic.name in self.declared or (stored is not None and stored.is_declared and stored.paused_by != "undeclared")
            if is_of_code:
                raise InvalidDefinition(
                    f"the periodic job {periodic.name} is declared in code: change it there, or give this one another name"
                )
            return moments.declare(periodic, stored, look.now, is_declared=False)

        self._change(periodic.name, change)
        return self.get(periodic.name)

    def pause(self, name: str) -> bool:
        """Let it not be due until ``resume``; a job of it that is enqueued already runs. False when a person had paused it already.

        Raises ``PeriodicJobNotFound``.
        """
        return self._change(name, lambda look: moments.pause(self._row(name, look), look.now, "person")) is not None

    def resume(self, name: str) -> bool:
        """Let it be due again from the next moment on: what came during the pause was not missed. False when it was not paused.

        Raises ``PeriodicJobNotFound``.
        """
        return self._change(name, lambda look: moments.resume(self._row(name, look), look.now)) is not None

    def run_now(self, name: str) -> JobHandle:
        """Enqueue one more job of it now, also while it is paused; its moments stay what they are. Raises ``PeriodicJobNotFound``."""
        job_id = new_id()
        written = self._change(name, lambda look: moments.run_now(self._row(name, look), job_id, look.now))
        assert written is not None
        return JobHandle(Accepted(written.stands_for[0], is_new=bool(written.job_ids)), self._store.get)

    def delete(self, name: str) -> None:
        """Forget one that was made at run time, or one that no code declares any more; its jobs stay.

        Whether another application's code declares it, nobody can see here: such a one has to be paused first. Raises
        ``PeriodicJobNotFound``, and ``InvalidDefinition`` for one that is declared in code.
        """
        look = self._store.periodic([check_name("name of a periodic job", name)])
        if name in self.declared:
            raise InvalidDefinition(f"the periodic job {name} is declared in code, and would come back: take it out there, or pause it")
        if look.rows and look.rows[0].is_declared and look.rows[0].paused_at is None:
            raise InvalidDefinition(
                f"the periodic job {name} is declared in the code of some application: take it out there; where no code has it any more, "
                "pause it, and delete it then"
            )
        if not self._store.delete_periodic(name):
            raise self._not_found(name)

    def _row(self, name: str, look: PeriodicLook) -> PeriodicJob:
        if look.rows:
            return look.rows[0]
        if look.unreadable:
            raise InvalidDefinition(f"the periodic job {name} cannot be read: correct its row, or delete it")
        if name in self.declared:
            return _fresh(self.declared[name], look)
        raise self._not_found(name)

    def _not_found(self, name: str) -> PeriodicJobNotFound:
        return PeriodicJobNotFound(name, nearest(name, (row.name for row in self.list()), likeness=0.6))

    def _change(self, name: str, change: Callable[[PeriodicLook], PeriodicChange | None]) -> PeriodicWritten | None:
        """Read, decide and write, and do it again while others are quicker. None when there is nothing to change."""
        check_name("name of a periodic job", name)
        for _ in range(MOST_TRIES):
            wanted = change(self._store.periodic([name]))
            if wanted is None:
                return None
            written: Sequence[PeriodicWritten] = self._store.write_periodic([wanted])
            if written:
                return written[0]
            time.sleep(PAUSE_BETWEEN_TRIES)
        raise StoreBusy(f"the periodic job {name} is changed by others all the time: nothing was changed, and trying again is safe")

    alist = awaited(list)  # noqa: A003 - the method is meant
    aget = awaited(get)
    aput = awaited(put)
    apause = awaited(pause)
    aresume = awaited(resume)
    arun_now = awaited(run_now)
    adelete = awaited(delete)


def _read_declared(declared: Iterable[Periodic], definitions: Registry) -> dict[str, Periodic]:
    by_name: dict[str, Periodic] = {}
    for one in declared:
        if not isinstance(one, Periodic):
            raise InvalidDefinition(f"periodic= takes what Periodic(definition, ...) made, not {shown(one)}")
        _check_known(one, definitions)
        if one.name in by_name:
            raise InvalidDefinition(f"two periodic jobs are called {one.name!r}: give one of them a name=")
        by_name[one.name] = one
    return by_name


def _check_known(periodic: Periodic, definitions: Registry) -> None:
    if periodic.request.type not in definitions:
        raise UnknownJobType(f"{periodic.request.type!r} is not a job of this application: add it to Onward(jobs=[...])")


def _fresh(periodic: Periodic, look: PeriodicLook) -> PeriodicJob:
    change: Any = moments.declare(periodic, None, look.now)
    row: PeriodicJob = change.row
    return row
