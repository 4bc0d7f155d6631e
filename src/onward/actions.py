"""The record of who did what to how many: verbs for many jobs, and what people do to queues, breakers and limits.

It holds nothing of a payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from onward.errors import InvalidDefinition
from onward.ids import new_id
from onward.inspection import JobFilter
from onward.spelling import shown

LONGEST_ACTOR = 255
MOST_NAMED = 20
"""Types, queues or ids that the record of a filter names, of each so many; of the others only how many they are."""
LONGEST_NAMED = 100
"""Characters of each: as many as a type or a queue may have."""
LONGEST_OF_ONE = 255
"""Characters of a key or an owner: as many as they may have."""


class NewAction(Struct, frozen=True, kw_only=True):
    """What is about to be done."""

    id: str
    """A ULID: they sort by the time at which it was asked for."""
    actor: str
    """Who did it, in the caller's words. Empty where nobody was named."""
    verb: str
    """``cancel``, ``retry``, ``run_now``, ``delete``, ``pause``, ``resume``, ``open_breaker``, ``reset_breaker``, ``set_limit`` or
    ``clear_limit``."""
    filter: str
    """For which jobs, queue or key, as JSON text: ``{"statuses": ["queued"], "queues": ["mail"]}``."""
    matched: int
    """Jobs that it was meant for when it began; 1 for a queue, a breaker or a limit."""


class Action(NewAction, frozen=True, kw_only=True):
    """One line of the record: written before the first job is touched, counted in the commits that do it to the jobs."""

    began_at: datetime
    done: int = 0
    """Jobs, or queues, that it changed."""
    refused: int = 0
    """Jobs that refused it."""
    was_stopped: bool = False
    """True when somebody or an error ended it before it was through."""
    finished_at: datetime | None = None
    """None while it goes on, and for ever when whoever did it was killed: the counts are exact then, too."""


def new_action(verb: str, where: JobFilter, *, actor: str, matched: int = 1, group: str | None = None) -> NewAction:
    """What a store is told before it is done. Raises ``InvalidDefinition`` for what is no actor."""
    return NewAction(id=new_id(), actor=check_actor(actor), verb=verb, filter=filter_text(where, group), matched=matched)


def check_actor(actor: str) -> str:
    """Give the actor back if it can be one. Raises ``InvalidDefinition``."""
    if not isinstance(actor, str) or len(actor) > LONGEST_ACTOR or not (actor == "" or actor.isprintable()):
        raise InvalidDefinition(f"actor= is who does it, as text of at most {LONGEST_ACTOR} printable characters, not {shown(actor)}")
    return actor


def filter_text(where: JobFilter, group: str | None = None) -> str:
    """Write what a filter narrows as JSON, in ASCII, so that any store and any terminal can take it; bounded, whatever it names.

    ``group`` is that of failures whose jobs were meant, of those that the filter lets through.
    """
    from json import dumps

    named: dict[str, Any] = {
        "statuses": [status.value for status in where.statuses],
        "types": _named(where.types),
        "queues": _named(where.queues),
        "ids": _named(where.ids),
        "key": None if where.key is None else where.key[:LONGEST_OF_ONE],
        "owner": None if where.owner is None else where.owner[:LONGEST_OF_ONE],
        "finished_after": None if where.finished_after is None else where.finished_after.isoformat(),
        "group": group,
    }
    return dumps({name: value for name, value in named.items() if value is not None and value != []}, ensure_ascii=True)


def _named(names: Sequence[str]) -> list[str]:
    more = [f"and {len(names) - MOST_NAMED:,} more"] if len(names) > MOST_NAMED else []
    return [name[:LONGEST_NAMED] for name in names[:MOST_NAMED]] + more
