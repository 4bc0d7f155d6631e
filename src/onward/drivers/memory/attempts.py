"""Attempts of all jobs in memory: a page of them."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import asdict

from onward.attempts import AttemptFilter, Attempts, ListedAttempt, Place, begin_of, end_of
from onward.drivers.memory.tables import Tables
from onward.jobs import Attempt


def find_attempts(tables: Tables, where: AttemptFilter, limit: int, before: Place | None, looks: int) -> Attempts:
    """As other stores find them, with the same bound."""
    begin, end = begin_of(where, before), end_of(where)
    kept = ((Place(one.finished_at, one.job_id, one.fence), one) for several in tables.history.values() for one in several)
    ordered = sorted(((place, one) for place, one in kept if end <= place < begin), key=lambda pair: pair[0], reverse=True)
    bound = max(looks, limit) if where.may_match_rarely else len(ordered)
    found: list[ListedAttempt] = []
    last: Place | None = None
    for place, one in ordered[:bound]:
        listed = _listed(tables, one)
        if listed is not None and _matches(where, listed):
            if len(found) == limit:
                return Attempts(found=tuple(found), next=str(last))
            found.append(listed)
            last = place
    if bound < len(ordered):
        return Attempts(found=tuple(found), next=str(ordered[bound - 1][0]), is_capped=len(found) < limit)
    return Attempts(found=tuple(found))


def _listed(tables: Tables, attempt: Attempt) -> ListedAttempt | None:
    job = tables.jobs.get(attempt.job_id)
    return None if job is None else ListedAttempt(**asdict(attempt), type=job.type, queue=job.queue)


def _matches(where: AttemptFilter, one: ListedAttempt) -> bool:
    return (
        _is_among(one.type, where.types)
        and _is_among(one.queue, where.queues)
        and _is_among(one.outcome, where.outcomes)
        and (where.lease_owner is None or one.lease_owner == where.lease_owner)
    )


def _is_among(value: str, wanted: Collection[str]) -> bool:
    return not wanted or value in wanted
