"""Enqueues the jobs of periodic jobs that are due. Every worker may try; who is quicker is decided by the store, moment by moment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

from onward.clock import Clock
from onward.driver import Store
from onward.durations import format_duration
from onward.errors import InvalidPayload, OnwardError, StoreBusy, ValueRefused
from onward.limit import Limit
from onward.moments import LATE, UNDECLARED_AFTER, PeriodicChange, PeriodicWritten, adopt, declare, fire, is_known, pause
from onward.periodic import Periodic, PeriodicJob
from onward.registry import Registry

logger = logging.getLogger("onward.worker")

LOOK_EVERY = 60.0
"""Seconds after which a scheduler looks by itself: what was made or changed at run time is known then."""
AGAIN = 1.0
"""Seconds after which what could not be written is looked at again: somebody was quicker, or holds its row."""
DECLARE_EVERY = UNDECLARED_AFTER.total_seconds()
"""Seconds after which a scheduler sees to it that what its code declares is there, and not paused for want of code."""
AT_ONCE = 100
"""Jobs in one commit, so that other writers get between."""
MOST_TRIES = 10


class Scheduler:
    """Sleeps until the next moment. Says first what the code declares, limits of queues included, and again when the store's clock was set
    back.
    """

    name = "scheduler"

    def __init__(
        self,
        store: Store,
        definitions: Registry,
        declared: Iterable[Periodic],
        *,
        limits: Mapping[str, Limit] | None = None,
        clock: Clock,
        chance: Random,
    ) -> None:
        self._store = store
        self._limits = dict(limits or {})
        self._declared = {one.name: one for one in declared}
        self._types = frozenset(definitions.leases())
        self._clock = clock
        self._chance = chance
        self._has_declared = False
        self._last_look: datetime | None = None
        self._declared_at = 0.0
        self._waiting: dict[tuple[str, datetime], float] = {}
        """Since when each due moment that nobody here stands behind was seen."""
        self._told_of: set[str] = set()

    def tick(self) -> float:
        if not self._has_declared:
            self._declare(is_start=True)
            self._has_declared = True
        look = self._store.due_periodic()
        was_set_back = self._last_look is not None and look.now < self._last_look
        if was_set_back or self._clock.monotonic() - self._declared_at >= DECLARE_EVERY:
            self._declare(is_start=False)
            look = self._store.due_periodic()
        self._last_look = look.now
        self._tell_of_unreadable(look.unreadable)
        due = {row.name: row for row in look.rows if is_known(row, self._declared, self._types)}
        following = [look.now + timedelta(seconds=LOOK_EVERY)] if look.next_moment is None else [look.next_moment]
        is_whole = True
        # Each portion is written before the next is worked out: after a long time without a worker that takes a while.
        for portion in _portions(self._fired(due.values(), look.now, following)):
            is_whole = self._write_fired(portion, due, look.now) == len(portion) and is_whole
        self._leave_or_pause([row for row in look.rows if not is_known(row, self._declared, self._types)])
        pause = min([max((moment - look.now).total_seconds(), 0.01) for moment in following] + [LOOK_EVERY])
        return pause if is_whole else min(pause, AGAIN)

    def _declare(self, *, is_start: bool) -> None:
        """Make the store say what the code says. Others may do so at the same time, with the same or with another code.

        What somebody else's code has said since the start stays: a row is only made anew, or gone on with.
        """
        self._declared_at = self._clock.monotonic()
        if self._limits:
            self._store.declare_limits(self._limits)
        for _ in range(MOST_TRIES):
            look = self._store.periodic()
            self._tell_of_unreadable(look.unreadable)
            stored = {row.name: row for row in look.rows}
            new = [one for one in self._declared.values() if (is_start or one.name not in stored) and one.name not in look.unreadable]
            known = {row.name: row for row in look.rows if is_known(row, self._declared, self._types)}
            for one in new:
                known.pop(one.name, None)
            wanted = [declare(one, stored.get(one.name), look.now) for one in new]
            changes = [one for one in (*wanted, *(adopt(row, look.now) for row in known.values())) if one is not None]
            written = [one.name for portion in _portions(changes) for one in self._write(portion)]
            for change in changes:
                was = stored.get(change.row.name)
                if was is not None and change.row.is_declared and not was.is_declared and was.name in written:
                    logger.warning(
                        "periodic job %s was made at run time (%s), and the code declares one of that name, which takes its place: %s",
                        *(was.name, was.rule.explain(), change.row.rule.explain()),
                    )
                if was is not None and change.row.skipped > was.skipped and was.name in written:
                    missed = change.row.skipped - was.skipped
                    logger.warning("periodic job %s: its rule is another one; moments that were due by the old one: %d", was.name, missed)
            if len(written) == len(changes) or self._told_of.issuperset({one.row.name for one in changes} - {*written}):
                return
        raise StoreBusy("periodic jobs are changed by others just now, so they could not be declared")

    def _fired(self, rows: Iterable[PeriodicJob], now: datetime, following: list[datetime]) -> Iterator[PeriodicChange]:
        for row in rows:
            try:
                change = fire(row, now, self._chance)
            except Exception as error:  # noqa: BLE001 - a row that somebody wrote by hand stops only itself
                self._tell_of_unreadable([row.name], None if isinstance(error, OnwardError | ArithmeticError) else error)
                continue
            following.append(change.row.next_moment)
            yield change

    def _write(self, changes: Sequence[PeriodicChange]) -> list[PeriodicWritten]:
        """Together; where the store refuses a value of one of them, one by one, so that it stops only itself."""
        try:
            return self._store.write_periodic(changes)
        except (ValueRefused, InvalidPayload):
            if len(changes) == 1:
                self._tell_of_unreadable([changes[0].row.name])
                return []
        return [written for one in changes for written in self._write([one])]

    def _write_fired(self, changes: Sequence[PeriodicChange], before: dict[str, PeriodicJob], now: datetime) -> int:
        fired = {change.row.name: change for change in changes}
        written = self._write(changes)
        for one in written:
            change, was = fired[one.name], before[one.name]
            missed = change.row.skipped - was.skipped
            if one.overlapped:
                logger.info("periodic job %s: a moment was left out, since job %s is not done with", one.name, was.last_job_id)
            elif change.jobs and not one.job_ids:
                logger.info("periodic job %s: no new job for its moment, since job %s stands for it", one.name, one.stands_for[-1])
            if missed:
                how = f"catch_up={was.rule.catch_up!r}"
                logger.warning(
                    "periodic job %s: moments that were missed since %s and get no job: %d (%s)", one.name, was.next_moment, missed, how
                )
            elif one.job_ids and now - was.next_moment > LATE:
                late = format_duration(timedelta(seconds=round((now - was.next_moment).total_seconds())))
                logger.warning("periodic job %s: its moment of %s is %s late", one.name, was.next_moment, late)
        return len(written)

    def _leave_or_pause(self, rows: Sequence[PeriodicJob]) -> None:
        """They may be of an application whose workers come up later. One that nobody stands behind any more must not wait in silence.

        Each moment is waited for by itself: where the next one is due, somebody has come for the last.
        """
        seen = self._clock.monotonic()
        self._waiting = {(row.name, row.next_moment): self._waiting.get((row.name, row.next_moment), seen) for row in rows}
        given_up = [row for row in rows if seen - self._waiting[row.name, row.next_moment] >= UNDECLARED_AFTER.total_seconds()]
        now = self._last_look
        assert now is not None
        for portion in _portions(change for row in given_up if (change := pause(row, now, "undeclared")) is not None):
            for one in self._write(portion):
                logger.warning(
                    "periodic job %s is due, and the code of no worker has it any more: it is paused; "
                    "declare it again, or delete it with: onward periodic delete %s",
                    one.name,
                    one.name,
                )

    def _tell_of_unreadable(self, names: Iterable[str], error: Exception | None = None) -> None:
        """``error`` is one that no row should cause: then it is ours, and is shown whole."""
        for name in names:
            if name not in self._told_of:
                logger.error("periodic job %s cannot be read, so it is never due: correct its row, or delete it", name, exc_info=error)
                self._told_of.add(name)


def _portions(changes: Iterable[PeriodicChange]) -> Iterator[list[PeriodicChange]]:
    """In parts of about a hundred jobs."""
    portion: list[PeriodicChange] = []
    size = 0
    for change in changes:
        portion.append(change)
        size += max(len(change.jobs), 1)
        if size >= AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
