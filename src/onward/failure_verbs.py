"""``app.failures``: dead letters by what they died of, looked at, retried and purged together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onward.awaited import awaited
from onward.bulk import BulkResult, OnProgress, run_bulk_on
from onward.definition import JobDefinition, check_name
from onward.driver import Store
from onward.errors import FailureGroupNotFound, InvalidDefinition
from onward.inspection import MOST_COUNTED, BulkVerb, DeadLetter, JobFilter
from onward.jobs import Job
from onward.outcome import storable
from onward.rate import Rate, parse_rate
from onward.spelling import nearest, shown
from onward.status import Status
from onward.verbs import check_limit

if TYPE_CHECKING:
    from onward.failures import FailureGroup

PAGE = 1000
"""Dead letters that are read at once: each error may have 8 KiB."""


class Failures:
    """Dead letters by their cause, of those that became so last: 10,000 are looked at, of the definition or queue that is named.

    A group is known by its id, as ``groups`` gives it. It stays the same while jobs join and leave. Each verb has a twin for code on an
    event loop, such as ``agroups``.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def groups(self, *, definition: JobDefinition[Any] | None = None, queue: str | None = None) -> list[FailureGroup]:
        """What jobs died of, by how many did, the largest group first. Raises ``InvalidDefinition`` for what cannot be asked."""
        return groups_of(self._store, _filter(definition, queue))

    def jobs(self, group_id: str, *, definition: JobDefinition[Any] | None = None, queue: str | None = None, limit: int = 50) -> list[Job]:
        """The newest jobs of a group. Raises ``FailureGroupNotFound``."""
        _, dead_letters = find_group(self._store, group_id, _filter(definition, queue))
        return jobs_of(self._store, dead_letters[: check_limit(limit)])

    def retry(
        self,
        group_id: str,
        *,
        pace: str | None = None,
        definition: JobDefinition[Any] | None = None,
        queue: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        actor: str = "",
    ) -> BulkResult:
        """Queue the jobs of a group again, with all their tries: those that are in it now, and are dead letters when their turn comes.

        With ``pace="10/s"`` it takes no more than so many in so long a time, and lasts as long as that takes. The rest is as for
        ``app.bulk``. Raises ``FailureGroupNotFound``, or ``InvalidDefinition`` for what cannot be asked.
        """
        rate = None if pace is None else parse_rate("pace", pace)
        return self._act("retry", group_id, _filter(definition, queue), dry_run, on_progress, actor, rate)

    def purge(
        self,
        group_id: str,
        *,
        definition: JobDefinition[Any] | None = None,
        queue: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        actor: str = "",
    ) -> BulkResult:
        """Delete the jobs of a group, with their history. Otherwise as ``retry``."""
        return self._act("delete", group_id, _filter(definition, queue), dry_run, on_progress, actor, None)

    def _act(
        self, verb: BulkVerb, group_id: str, where: JobFilter, dry_run: bool, on_progress: OnProgress | None, actor: str, pace: Rate | None
    ) -> BulkResult:
        group, dead_letters = find_group(self._store, group_id, where)
        if dry_run:
            return BulkResult(verb=verb, matched=len(dead_letters))
        return act_on_group(self._store, verb, group, dead_letters, on_progress=on_progress, actor=actor, pace=pace)

    agroups = awaited(groups)
    ajobs = awaited(jobs)
    aretry = awaited(retry)
    apurge = awaited(purge)


def groups_of(store: Store, where: JobFilter, *, raw: bool = False) -> list[FailureGroup]:
    """The groups of the dead letters that the filter's types and queues let through, the largest first."""
    from onward.failures import group_of, members

    looked_at = list(_newest(store, where))
    is_capped = len(looked_at) >= MOST_COUNTED
    found = [group_of(cause, group, is_capped=is_capped, raw=raw) for cause, group in members(looked_at).items()]
    return sorted(found, key=lambda one: (-one.count, one.id))


def find_group(store: Store, group_id: str, where: JobFilter, *, raw: bool = False) -> tuple[FailureGroup, list[DeadLetter]]:
    """One of them, and its dead letters, the newest first. Raises ``FailureGroupNotFound``."""
    from onward.failures import group_of, members

    if not isinstance(group_id, str):
        raise InvalidDefinition(f"a group of failures is known by its id, as app.failures.groups() gives it, not {shown(group_id)}")
    looked_at = list(_newest(store, where))
    found = {cause.id: (cause, group) for cause, group in members(looked_at).items()}
    if (meant := group_id.strip().lower()) not in found:
        raise FailureGroupNotFound(storable(group_id)[:100], nearest(meant[:100], found, likeness=0.6))
    cause, group = found[meant]
    return group_of(cause, group, is_capped=len(looked_at) >= MOST_COUNTED, raw=raw), group


def act_on_group(
    store: Store,
    verb: BulkVerb,
    group: FailureGroup,
    dead_letters: list[DeadLetter],
    *,
    on_progress: OnProgress | None = None,
    actor: str = "",
    pace: Rate | None = None,
) -> BulkResult:
    """Do it to the dead letters of a group, so far as they still are."""
    where = JobFilter(statuses=(Status.DEAD_LETTER,), types=(group.type,))
    ids = [one.id for one in dead_letters]
    return run_bulk_on(store, verb, ids, where, group=group.id, on_progress=on_progress, actor=actor, pace=pace)


def jobs_of(store: Store, dead_letters: list[DeadLetter]) -> list[Job]:
    """The jobs, in the same order; those that are gone by now are left out."""
    ids = tuple(one.id for one in dead_letters)
    found = {job.id: job for job in store.find(JobFilter(ids=ids), limit=len(ids))}
    return [found[job_id] for job_id in ids if job_id in found]


def _newest(store: Store, where: JobFilter) -> Iterator[DeadLetter]:
    left, before = MOST_COUNTED, None
    while left and (page := store.dead_letters(types=where.types, queues=where.queues, limit=min(left, PAGE), before=before)):
        yield from page
        left, before = left - len(page), page[-1]


def _filter(definition: JobDefinition[Any] | None, queue: str | None) -> JobFilter:
    if definition is not None and not isinstance(definition, JobDefinition):
        raise InvalidDefinition(f"definition= is what define_job(name, handler) returned, not {shown(definition)}")
    return JobFilter(
        types=() if definition is None else (definition.name, *definition.aliases),
        queues=() if queue is None else (check_name("queue", queue),),
    )
