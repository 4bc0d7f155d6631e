"""The record of who did what to how many, as operations: begun, counted in the commit that does it, ended, read, pruned."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from onward.actions import Action, NewAction
from onward.drivers.sql.rows import ACTION_COLUMNS, write_instant
from onward.drivers.sql.statements import Operation, Row, Statement
from onward.inspection import Acted


def begin(action: NewAction, now: datetime) -> Operation[None]:
    """Write that it begins."""
    yield Statement("begin_action", msgspec.to_builtins(action) | {"now": write_instant(now)})


def count(action_id: str, acted: Acted) -> Operation[None]:
    """Add what became of one portion."""
    yield Statement("count_acted", {"id": action_id, "done": len(acted.done), "refused": len(acted.refused)})


def end(action_id: str, now: datetime, *, was_stopped: bool = False) -> Operation[None]:
    """Write that no more will be done."""
    yield Statement("end_action", {"id": action_id, "was_stopped": int(was_stopped), "now": write_instant(now)})


def note(action: NewAction, now: datetime, *, is_done: bool) -> Operation[None]:
    """Write down what this commit does, and no other."""
    yield from begin(action, now)
    yield from count(action.id, Acted(("",)) if is_done else Acted())
    yield from end(action.id, now)


def actions(limit: int, before: str | None) -> Operation[list[Action]]:
    """Read a page, newest first. A row that cannot be read was written by hand, and is left out."""
    rows = yield Statement("actions", {"limit": limit, "before": before})
    return [action for row in rows if (action := _read(row)) is not None]


def _read(row: Row) -> Action | None:
    fields = dict(zip(ACTION_COLUMNS, row, strict=True))
    try:
        action = msgspec.convert(fields | {"was_stopped": fields["was_stopped"] != 0}, Action)
    except msgspec.ValidationError:
        return None
    instants = (action.began_at, action.finished_at)
    return None if any(moment is not None and moment.tzinfo is None for moment in instants) else action


def prune(kept_for: timedelta | None, limit: int, now: datetime) -> Operation[int]:
    """Delete at most ``limit`` that began longer ago, the oldest first. Says how many."""
    if kept_for is None:
        return 0
    return len((yield Statement("prune_actions", {"before": write_instant(now - kept_for), "limit": limit})))
