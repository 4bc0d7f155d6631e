"""One verb for all jobs that match: which may be meant, in portions, with a count, a progress and a stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from onward.actions import NewAction, new_action
from onward.driver import Store
from onward.errors import InvalidDefinition, OnwardError
from onward.inspection import MEANT_FOR, Acted, BulkVerb, JobFilter
from onward.portions import FEWEST, HOLD, HOLD_OF_ONE_WRITER, portion_behind, rest_behind
from onward.rate import Bucket, Rate
from onward.spelling import did_you_mean, shown
from onward.status import Status

PAGE = 100
"""Jobs that are looked up at once, and in one commit at most."""
BURST = timedelta(milliseconds=100)
"""Of a pace, what comes in that time goes in one commit: more would come to workers in bursts."""
MOST_REASONS = 100
"""Refusals that are kept with their reason."""
logger = logging.getLogger("onward.actions")


class BulkResult(Struct, frozen=True, kw_only=True):
    """What a verb for many jobs has done by now."""

    verb: BulkVerb
    matched: int
    """Jobs that it was meant for when it began."""
    done: int = 0
    refused: int = 0
    """Jobs that have ended or gone meanwhile, whose key another job holds, or whose row somebody else's transaction holds."""
    reasons: dict[str, str] = {}
    """Why, by id, of the first hundred that were refused."""
    was_stopped: bool = False
    action_id: str | None = None
    """Of its record among ``app.actions()``. None where nothing matched, and for a dry run."""


OnProgress = Callable[[BulkResult], bool | None]
"""Is told after each portion. Returning False stops there."""


def check_bulk(verb: BulkVerb, where: JobFilter) -> JobFilter:
    """Give the filter, narrowed to the statuses that the verb is for.

    Raises ``InvalidDefinition`` for an unknown verb, for a status that it can never be meant for, and for a filter that names nothing: all
    jobs of a store are asked for by their statuses.
    """
    if verb not in MEANT_FOR:
        raise InvalidDefinition(f"{shown(verb)} is no verb for many jobs{did_you_mean(str(verb), get_args(BulkVerb))}")
    if where == JobFilter():
        raise InvalidDefinition(f"say which jobs to {verb.replace('_', ' ')}: a status, a definition, a queue, a key or an owner")
    wrong = [one for one in where.statuses if one not in MEANT_FOR[verb]]
    if wrong:
        allowed = ", ".join(one.value for one in Status if one in MEANT_FOR[verb])
        raise InvalidDefinition(f"{verb.replace('_', ' ')} is not for jobs that are {wrong[0].value}, only for {allowed}")
    return where if where.statuses else replace(where, statuses=tuple(one for one in Status if one in MEANT_FOR[verb]))


def run_bulk(
    store: Store,
    verb: BulkVerb,
    where: JobFilter,
    *,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    actor: str = "",
    pace: Rate | None = None,
) -> BulkResult:
    """Do it to all that match now, newest first. Jobs that are enqueued meanwhile are not meant. Raises as ``check_bulk`` and the store.

    Whatever ends it early, what was done until then stays done, and the same call again goes on with the rest. The record that it leaves
    says how much that was, and who the ``actor`` is. With a ``pace`` this call lasts as long as that takes.
    """
    where = check_bulk(verb, where)
    action = new_action(verb, where, actor=actor, matched=store.count(where))
    if dry_run or not action.matched:
        return BulkResult(verb=verb, matched=action.matched)
    return _run(store, verb, action, _pages(store, where), where.statuses, on_progress, pace)


def run_bulk_on(
    store: Store,
    verb: BulkVerb,
    job_ids: Sequence[str],
    where: JobFilter,
    *,
    group: str,
    on_progress: OnProgress | None = None,
    actor: str = "",
    pace: Rate | None = None,
) -> BulkResult:
    """``run_bulk`` for these jobs, in their order, so far as they still have the statuses of the filter.

    The record names the filter and the ``group`` of failures, not each of the ids.
    """
    action = new_action(verb, where, actor=actor, matched=len(job_ids), group=group)
    if not job_ids:
        return BulkResult(verb=verb, matched=0)
    pages = (job_ids[begin : begin + PAGE] for begin in range(0, len(job_ids), PAGE))
    return _run(store, verb, action, pages, where.statuses, on_progress, pace)


def _run(
    store: Store,
    verb: BulkVerb,
    action: NewAction,
    pages: Iterable[Sequence[str]],
    statuses: Sequence[Status],
    on_progress: OnProgress | None,
    pace: Rate | None,
) -> BulkResult:
    store.begin_action(action)
    result = BulkResult(verb=verb, matched=action.matched, action_id=action.id)
    try:
        for latest in _portions(store, pages, statuses, result, pace):
            result = latest
            if on_progress is not None and on_progress(result) is False:
                result = replace(result, was_stopped=True)
                break
    except BaseException:
        _end(store, action, replace(result, was_stopped=True))
        raise
    _end(store, action, result)
    return result


def _pages(store: Store, where: JobFilter) -> Iterator[list[str]]:
    before: str | None = None
    while page := store.find(where, limit=PAGE, before=before):
        before = page[-1].id
        yield [job.id for job in page]


def _portions(
    store: Store, pages: Iterable[Sequence[str]], statuses: Sequence[Status], result: BulkResult, pace: Rate | None
) -> Iterator[BulkResult]:
    """Gives the result as it is after each commit."""
    at_once = FEWEST
    hold = HOLD_OF_ONE_WRITER if store.capabilities.has_one_writer else HOLD
    bucket = None if pace is None else bucket_of(pace)
    for ids in pages:
        while ids:
            allowed = at_once
            if bucket is not None:
                allowed, bucket = _wait_for(bucket, min(at_once, len(ids)))
            portion, ids = ids[:allowed], ids[allowed:]
            began = time.monotonic()
            acted = store.act(result.verb, portion, statuses, action=result.action_id)
            took = time.monotonic() - began
            result = _added(result, acted)
            yield result
            at_once = portion_behind(len(portion), took, hold, PAGE)
            time.sleep(rest_behind(took))


def bucket_of(pace: Rate) -> Bucket:
    """The bucket that lets jobs go at a pace: a little at once, and nothing is caught up on after a pause."""
    return Bucket(pace, max(BURST // pace.interval, 1))


def _wait_for(bucket: Bucket, most: int) -> tuple[int, Bucket]:
    """Wait until one may go, and say how many go together."""
    while not (available := bucket.available(now := _moment())):
        time.sleep((bucket.next_at(now) - now).total_seconds())
    count = min(available, most)
    return count, replace(bucket, spent_until=bucket.take(count, now))


def _moment() -> datetime:
    """Of a clock that nobody sets."""
    return datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=time.monotonic())


def _added(result: BulkResult, acted: Acted) -> BulkResult:
    reasons = list((result.reasons | acted.refused).items())[:MOST_REASONS]
    done, refused = result.done + len(acted.done), result.refused + len(acted.refused)
    return replace(result, done=done, refused=refused, reasons=dict(reasons))


def _end(store: Store, action: NewAction, result: BulkResult) -> None:
    """What was done is done and counted, so a store that fails now costs the record its last word, and nothing else."""
    try:
        store.end_action(action.id, was_stopped=result.was_stopped)
    except OnwardError as error:
        logger.warning("the record of action %s could not be ended: %s", action.id, error)
    logger.info(
        "%s by %s, jobs with %s: %s of %s done, %s refused%s (action %s)",
        *(action.verb, action.actor or "somebody", action.filter, f"{result.done:,}", f"{result.matched:,}", f"{result.refused:,}"),
        *(", stopped" if result.was_stopped else "", action.id),
    )
