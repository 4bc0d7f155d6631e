"""Names of types, queues and keys in a filter that no job has: nothing matches them, and a slip must not pass for a success."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from onward.cli.output import escape, say
from onward.inspection import JobFilter
from onward.spelling import did_you_mean, nearest

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.driver import Store
    from onward.jobs import Job

SAMPLE = 50
"""The newest jobs, whose names may be meant. No index leads to every name of a large table."""
MOST_NAMED = 20
"""Known names that are listed where none is near."""


def point_out_strange_names(store: Store, app: Onward | None, where: JobFilter) -> None:
    """Say of each type, queue and key of the filter that neither the application nor a job of the store has, and which is meant."""
    definitions = list(app.definitions) if app else []
    types = {name for one in definitions for name in (one.name, *one.aliases)}
    queues = {one.queue for one in definitions}
    for name in _strange(where.types, types, lambda name: JobFilter(types=(name,)), store):
        near = types | {str(row[0]) for row in store.answer("outstanding").rows} | {job.type for job in _newest(store)}
        say(escape(f"No job of the store is of the type {name!r}{_known_to(app)}{meant(name, near)}"))
    for name in _strange(where.queues, queues, lambda name: JobFilter(queues=(name,)), store):
        near = queues | {one.name for one in store.queues()} | {job.queue for job in _newest(store)}
        say(escape(f"No job of the store is in the queue {name!r}{_known_to(app)}{meant(name, near)}"))
    if where.key is not None and not store.find(JobFilter(key=where.key), limit=1):
        say(f"No job of the store has the key {where.key!r}.")


def _strange(names: Iterable[str], known: set[str], having: Callable[[str], JobFilter], store: Store) -> list[str]:
    return [name for name in dict.fromkeys(names) if name not in known and not store.find(having(name), limit=1)]


def _newest(store: Store) -> list[Job]:
    return store.find(JobFilter(), limit=SAMPLE)


def _known_to(app: Onward | None) -> str:
    return ", and the application declares none" if app else ""


def point_out_strange_queue(name: str, known: set[str]) -> None:
    """Say that the application declares no job for the queue, and none is in it, and which is meant."""
    if name not in known:
        say(f"No job of the application is declared for queue {name!r}, and none is in it{did_you_mean(name, known)}")


def meant(name: str, known: set[str]) -> str:
    """Which of the known names is meant, or all of them if they are few."""
    if len(known) > MOST_NAMED and nearest(name, known, likeness=0.6) is None:
        return "."
    return did_you_mean(name, sorted(known)) if known else "."
