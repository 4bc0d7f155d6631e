"""Pause and resume queues, with a record of it, and list them, as operations."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from onward.actions import new_action
from onward.drivers.sql import actions
from onward.drivers.sql.rows import read_instant, write_instant
from onward.drivers.sql.statements import Operation, Statement
from onward.inspection import JobFilter, Queue
from onward.status import Status


def pause(queue: str, actor: str, now: datetime) -> Operation[bool]:
    """True when it was not paused before."""
    is_new = bool((yield Statement("pause", {"queue": queue, "now": write_instant(now)})))
    yield from actions.note(new_action("pause", JobFilter(queues=(queue,)), actor=actor), now, is_done=is_new)
    return is_new


def resume(queue: str, actor: str, now: datetime) -> Operation[bool]:
    """True when it was paused."""
    was_paused = bool((yield Statement("resume", {"queue": queue})))
    yield from actions.note(new_action("resume", JobFilter(queues=(queue,)), actor=actor), now, is_done=was_paused)
    return was_paused


def paused() -> Operation[dict[str, datetime]]:
    """Since when each of them is. A name that is no text was written by hand, and is left out."""
    return {name: read_instant(at) for name, at in (yield Statement("paused")) if isinstance(name, str)}


def queues() -> Operation[list[Queue]]:
    """Those that are paused, and those with jobs that are not done with. A name that is no text was written by hand, and is left out."""
    counts: Counter[tuple[str, bool]] = Counter()
    for queue, status, count in (yield Statement("queue_counts")):
        if isinstance(queue, str):
            counts[queue, status == Status.IN_PROGRESS.value] += count
    since = yield from paused()
    names = {name for name, _ in counts} | since.keys()
    return [
        Queue(name=name, paused_at=since.get(name), waiting=counts[name, False], in_progress=counts[name, True]) for name in sorted(names)
    ]
