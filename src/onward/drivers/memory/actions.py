"""The record of who did what to how many."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import asdict, replace

from onward.actions import Action, NewAction, new_action
from onward.drivers.memory.tables import Tables
from onward.inspection import Acted, JobFilter


def begin(tables: Tables, action: NewAction, now: datetime) -> None:
    """Write that it begins."""
    tables.put_action(Action(**asdict(action), began_at=now))


def count(tables: Tables, action_id: str, acted: Acted) -> None:
    """Add what became of one portion."""
    if found := tables.actions.get(action_id):
        tables.put_action(replace(found, done=found.done + len(acted.done), refused=found.refused + len(acted.refused)))


def end(tables: Tables, action_id: str, now: datetime, *, was_stopped: bool = False) -> None:
    """Write that no more will be done."""
    if found := tables.actions.get(action_id):
        tables.put_action(replace(found, was_stopped=was_stopped, finished_at=now))


def note(tables: Tables, verb: str, where: JobFilter, actor: str, now: datetime, *, is_done: bool) -> None:
    """Write down what was done at once, and is all of it."""
    asked = new_action(verb, where, actor=actor)
    tables.put_action(Action(**asdict(asked), began_at=now, done=int(is_done), finished_at=now))


def prune(tables: Tables, kept_for: timedelta | None, limit: int, now: datetime) -> int:
    """Delete at most ``limit`` that began longer ago, the oldest first. Says how many."""
    if kept_for is None:
        return 0
    old = [one for one in tables.actions.values() if one.began_at <= now - kept_for]
    for one in sorted(old, key=lambda one: one.began_at)[:limit]:
        tables.remove_action(one)
    return min(len(old), limit)
