"""Reading: which jobs match, and the six standing questions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from onward.inspection import Answer, JobFilter, Question
from onward.jobs import Job
from onward.status import Status

Cell = str | int | float | None
Row = tuple[Cell, ...]


def matching(jobs: Iterable[Job], where: JobFilter) -> Iterator[Job]:
    """The jobs that every field of the filter lets through."""
    for job in jobs:
        if (
            (not where.statuses or job.status in where.statuses)
            and (not where.types or job.type in where.types)
            and (not where.queues or job.queue in where.queues)
            and (not where.ids or job.id in where.ids)
            and (where.key is None or job.idempotency_key == where.key)
            and (where.owner is None or job.owner == where.owner)
            and (where.finished_after is None or (job.finished_at is not None and job.finished_at > where.finished_after))
        ):
            yield job


def answer(jobs: Iterable[Job], question: Question, now: datetime, stuck_after: timedelta) -> Answer:
    """Answer a standing question with the columns that every store gives."""
    columns, find_rows = _QUESTIONS[question]
    return Answer(question, columns, tuple(find_rows(list(jobs), now, stuck_after)))


def _outstanding(jobs: list[Job], now: datetime, stuck_after: timedelta) -> list[Row]:
    counts = Counter((job.type, str(job.status)) for job in jobs if job.status.is_live)
    return [(*group, count) for group, count in sorted(counts.items())]


def _failed(jobs: list[Job], now: datetime, stuck_after: timedelta) -> list[Row]:
    dead = [job for job in jobs if job.status is Status.DEAD_LETTER]
    return [(job.id, job.type, job.attempts, _text(job.finished_at), job.error) for job in _newest_end_first(dead)]


def _stuck(jobs: list[Job], now: datetime, stuck_after: timedelta) -> list[Row]:
    running = sorted((job for job in jobs if job.status is Status.IN_PROGRESS), key=lambda job: (job.started_at or now, job.id))
    return [
        (job.id, job.type, job.lease_owner, _text(job.lease_until), _text(job.started_at), reason)
        for job in running
        if (reason := _why_stuck(job, now, stuck_after))
    ]


def _why_stuck(job: Job, now: datetime, stuck_after: timedelta) -> str | None:
    if job.lease_until is not None and job.lease_until <= now:
        return "lease expired"
    if job.started_at is not None and job.started_at <= now - stuck_after:
        return "running long"
    return None


def _durations(jobs: list[Job], now: datetime, stuck_after: timedelta) -> list[Row]:
    by_type: defaultdict[str, list[float]] = defaultdict(list)
    for job in jobs:
        if job.status is Status.COMPLETED and job.finished_at and job.started_at:
            by_type[job.type].append((job.finished_at - job.started_at).total_seconds())
    return [(name, len(took), round(sum(took) / len(took), 3), round(max(took), 3)) for name, took in sorted(by_type.items())]


def _duplicates(jobs: list[Job], now: datetime, stuck_after: timedelta) -> list[Row]:
    counts = Counter((job.owner, job.type, job.idempotency_key) for job in jobs if job.status.is_live and job.idempotency_key is not None)
    return [(*group, count) for group, count in sorted(counts.items(), key=str) if count > 1]


def _last_hour(jobs: list[Job], now: datetime, stuck_after: timedelta) -> list[Row]:
    ended = [job for job in jobs if job.finished_at is not None and job.finished_at >= now - timedelta(hours=1)]
    return [(job.id, job.type, str(job.status), _text(job.finished_at)) for job in _newest_end_first(ended)]


def _newest_end_first(jobs: list[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.finished_at or job.updated_at, job.id), reverse=True)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_QUESTIONS: dict[Question, tuple[tuple[str, ...], Callable[[list[Job], datetime, timedelta], list[Row]]]] = {
    "outstanding": (("type", "status", "jobs"), _outstanding),
    "failed": (("id", "type", "attempts", "finished_at", "error"), _failed),
    "stuck": (("id", "type", "lease_owner", "lease_until", "started_at", "reason"), _stuck),
    "durations": (("type", "jobs", "average_seconds", "longest_seconds"), _durations),
    "duplicates": (("owner", "type", "idempotency_key", "jobs"), _duplicates),
    "last-hour": (("id", "type", "status", "finished_at"), _last_hour),
}
