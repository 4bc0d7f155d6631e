"""Compare what completed file jobs promised with what is on disk. Reports, never repairs.

For each path the last completed job decides; what it superseded is silent. A path that a live job is about to change is pending. What
looks wrong is looked at again, so that jobs that run meanwhile cause no false alarm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from onward.driver import Store
from onward.errors import OnwardError, PermanentJobError, TransientJobError
from onward.files.safe_path import digest, read_file, walk_below
from onward.files.temporary import Leftover, find_leftovers, read_name
from onward.inspection import JobFilter
from onward.jobs import Job
from onward.status import CANCELLED, COMPLETED, DEAD_LETTER, LIVE, Status

PAGE = 200
_LOOKS = 3
_PATHS_NAMED = 5


class Promise(Struct, frozen=True):
    """What a job says about one path once it has completed."""

    path: str
    sha256: str | None
    """Of the content that is there afterwards, in hex; None when no file is."""


ReadPromise: TypeAlias = Callable[[Job], Promise | None]
"""Reads a job's payload; None for a job that promised nothing because it was superseded. Raises ``OnwardError`` for an unreadable one."""


class Reconciliation(Struct):
    """What a comparison found."""

    checked: int = 0
    """Paths whose last completed job was compared with the disk."""
    unchecked: int = 0
    """Files that no kept job knows: their jobs are older than the retention, or they never had one. And jobs that cannot be read."""
    discrepancies: Sequence[str] = ()
    """One line each."""
    pending: int = 0
    """Paths that a live job is about to change; they are not judged."""
    notes: Sequence[str] = ()
    """What was left unchecked, in words."""


class Decision(Struct, frozen=True):
    """The last completed job of one path."""

    job_id: str
    job_type: str
    promise: Promise
    finished: tuple[datetime, str]
    """Orders completions: when, then by id. Files are placed one at a time, so equal instants need a clock that stands still."""


class Look(Struct, frozen=True):
    """What the store said at one moment."""

    decisions: dict[str, Decision]
    live: frozenset[str]
    given_up: dict[str, list[Decision]]
    """What jobs that ended dead-lettered or cancelled were to do; one that was killed after placing its file leaves an orphan."""
    unreadable: tuple[str, ...]


def compare(base: str | os.PathLike[str], store: Store, promises: Mapping[str, ReadPromise]) -> Reconciliation:
    """Compare every path of completed jobs with the disk below ``base``.

    ``promises`` reads the jobs of each type. Nothing on disk or in the store is changed.
    """
    look = _look(store, promises)
    present, problem = _files_on_disk(base)
    if problem:
        return Reconciliation(discrepancies=[problem], unchecked=len(look.decisions), pending=len(look.live))
    suspects = {path: line for path in look.decisions.keys() - look.live if (line := _judge(base, look.decisions[path]))}
    pending = set(look.live)
    for _ in range(_LOOKS):
        if not suspects:
            break
        again = _look(store, promises)
        pending |= again.live
        settled = {path for path in suspects if again.decisions.get(path) == look.decisions.get(path)}
        confirmed = {path: line for path, line in suspects.items() if path in settled and path not in pending}
        moved = {path for path in suspects.keys() - settled - pending if path in again.decisions}
        suspects = confirmed | {path: line for path in moved if (line := _judge(base, again.decisions[path]))}
        look = again
        if not moved:
            break
    else:
        pending |= suspects.keys()
        suspects = {}
    strangers = present - look.decisions.keys() - pending
    orphans = {path: line for path in strangers & look.given_up.keys() if (line := _orphan(base, look.given_up[path]))}
    unknown = sorted(strangers - orphans.keys())
    lines = [suspects[path] for path in sorted(suspects)] + [orphans[path] for path in sorted(orphans)]
    lines += [_describe(one) for one in find_leftovers(base, store) if one.verdict != "in use"]
    return Reconciliation(
        checked=len(look.decisions.keys() - pending),
        unchecked=len(unknown) + len(look.unreadable),
        discrepancies=lines,
        pending=len(pending),
        notes=_notes(unknown, look.unreadable),
    )


def _look(store: Store, promises: Mapping[str, ReadPromise]) -> Look:
    live: set[str] = set()
    decisions: dict[str, Decision] = {}
    unreadable: list[str] = []
    # Live jobs first: one that completes between the two readings is then seen twice, not missed.
    for job in _all(store, promises, tuple(LIVE)):
        # An unreadable one will be dead-lettered, and touches nothing.
        with suppress(OnwardError):
            if awaited := promises[job.type](job):
                live.add(awaited.path)
    for job in _all(store, promises, (COMPLETED,)):
        try:
            promise = promises[job.type](job)
        except OnwardError:
            unreadable.append(job.id)
            continue
        if promise is None:
            continue
        decision = _decision(job, promise)
        known = decisions.get(promise.path)
        if known is None or known.finished < decision.finished:
            decisions[promise.path] = decision
    given_up: dict[str, list[Decision]] = {}
    for job in _all(store, promises, (DEAD_LETTER, CANCELLED)):
        with suppress(OnwardError):
            if promise := promises[job.type](job):
                given_up.setdefault(promise.path, []).append(_decision(job, promise))
    return Look(decisions, frozenset(live), given_up, tuple(unreadable))


def _decision(job: Job, promise: Promise) -> Decision:
    return Decision(job.id, job.type, promise, (job.finished_at or job.updated_at, job.id))


def _all(store: Store, promises: Mapping[str, ReadPromise], statuses: tuple[Status, ...]) -> list[Job]:
    jobs: list[Job] = []
    before = None
    where = JobFilter(statuses=statuses, types=tuple(promises))
    while page := store.find(where, limit=PAGE, before=before):
        jobs += page
        before = page[-1].id
    return jobs


def _files_on_disk(base: str | os.PathLike[str]) -> tuple[set[str], str]:
    try:
        return {path for path, name, _ in walk_below(base) if not read_name(name)}, ""
    except TransientJobError as error:
        return set(), str(error)


def _judge(base: str | os.PathLike[str], decision: Decision) -> str:
    """Say in one line what is wrong with a path; an empty line when nothing is."""
    path, by = decision.promise.path, f"{decision.job_type} {decision.job_id}"
    try:
        content = read_file(base, path)
    except PermanentJobError as error:
        # Something that is not a file of ours stands there: after a deletion that is somebody else's.
        return f"not a file: {path}, written by {by}: {error}" if decision.promise.sha256 else ""
    except OSError as error:
        return f"unreadable: {path}, decided by {by}: {error.strerror}"
    if decision.promise.sha256 is None:
        return "" if content is None else f"exists: {path} was deleted by {by}, but is there"
    if content is None:
        return f"missing: {path} was written by {by}, but is not there"
    return "" if digest(content) == decision.promise.sha256 else f"differs: {path} does not have the content that {by} wrote"


def _orphan(base: str | os.PathLike[str], given_up: Sequence[Decision]) -> str:
    """Say which job left this file, though it never completed; an empty line when the file has other content, so that it is not ours."""
    try:
        content = read_file(base, given_up[0].promise.path)
    except (PermanentJobError, OSError):
        return ""
    for decision in given_up:
        if content is not None and digest(content) == decision.promise.sha256:
            by = f"{decision.job_type} {decision.job_id}"
            return f"orphan: {decision.promise.path} has the content that {by} was to write, but that job never completed"
    return ""


def _describe(leftover: Leftover) -> str:
    if leftover.verdict == "kept":
        return f"aside: {leftover.path} is a file that was to be deleted, but {leftover.reason}: rename it back, or remove it"
    return f"leftover: {leftover.path} is a temporary file of ours, and {leftover.reason}"


def _notes(unknown: Sequence[str], unreadable: Sequence[str]) -> list[str]:
    notes = []
    if unknown:
        some = ", ".join(unknown[:_PATHS_NAMED]) + (", …" if len(unknown) > _PATHS_NAMED else "")
        notes.append(f"{len(unknown)} file(s) unknown to any kept job (older than the retention, or not ours): unchecked: {some}")
    if unreadable:
        notes.append(f"{len(unreadable)} completed job(s) with an unreadable payload: unchecked: {', '.join(unreadable[:_PATHS_NAMED])}")
    return notes
