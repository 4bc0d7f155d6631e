"""A job as JSON, and as text for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from onward.cli.output import escape, relative, rough, shorten, utc
from onward.cli.tables import Paint, put_table, table
from onward.jobs import Attempt, Job
from onward.redact import redact, redact_value
from onward.status import Status

LONGEST_TEXT = 4000
"""Characters of a payload, result or error that are shown unless all is asked for."""

_JSON_FIELDS = ("payload", "result", "progress", "metadata")
_COLOURS = {
    Status.COMPLETED: "green",
    Status.DEAD_LETTER: "red",
    Status.RETRYING: "yellow",
    Status.IN_PROGRESS: "cyan",
    Status.CANCELLED: "bright_black",
}


def job_json(job: Job, *, raw: bool = False) -> dict[str, Any]:
    """Every field, by its one name. What holds JSON is given decoded; where that fails it is null, and as stored under ``damaged``.

    Secrets are taken out, unless ``raw``.
    """
    fields: dict[str, Any] = msgspec.to_builtins(job)
    damaged = {}
    for name in _JSON_FIELDS:
        text = fields[name]
        if text is not None:
            try:
                fields[name] = _decode(text, raw)
            except ValueError:
                fields[name], damaged[name] = None, text if raw else redact(text)
    if damaged:
        fields["damaged"] = damaged
    return fields


def put_jobs(jobs: Sequence[Job], now: datetime) -> None:
    """The list as a table, newest first."""
    put_table(
        ("id", "type", "queue", "status", "attempts", "due", "created", "error"),
        [
            (
                job.id,
                shorten(job.type, 40),
                shorten(job.queue, 20),
                job.status.value,
                f"{job.attempts}/{job.max_attempts}",
                _due(job, now),
                relative(job.created_at, now),
                shorten((job.error or "").partition("\n")[0], 60),
            )
            for job in jobs
        ],
        {"status": paint_status},
    )


def job_lines(job: Job, why: str, attempts: Sequence[Attempt], now: datetime, *, whole: bool = False, raw: bool = False) -> Iterator[str]:
    """One job with all that is known of it, ``why`` it is not running included. Secrets are taken out, unless ``raw``."""
    limit = None if whole else LONGEST_TEXT
    yield f"{escape(job.id)}  {escape(job.type)}  {paint_status(job.status.value)}"
    yield escape(why)
    yield ""
    for name in job.__struct_fields__:
        value = getattr(job, name)
        if name in ("id", "type", "status", "error", *_JSON_FIELDS):
            continue
        yield f"{name:20} {_field(value, now)}"
    for name in ("error", *_JSON_FIELDS):
        text = getattr(job, name)
        if text is not None:
            yield from _block(name, text, limit, is_json=name != "error", raw=raw)
    if attempts:
        yield ""
        yield "history"
        yield from _history(attempts, now)


paint_status: Paint = lambda text: click.style(text, fg=_COLOURS.get(text.strip()))  # type: ignore[call-overload]  # noqa: E731


def _history(attempts: Sequence[Attempt], now: datetime) -> Iterator[str]:
    rows = [
        (
            attempt.attempt,
            attempt.outcome,
            utc(attempt.finished_at),
            "-" if attempt.started_at is None else rough(attempt.finished_at - attempt.started_at),
            attempt.processed,
            attempt.failed,
            attempt.lease_owner or "-",
            shorten((attempt.error or "").partition("\n")[0], 80),
        )
        for attempt in attempts
    ]
    for line in table(("attempt", "outcome", "finished", "took", "processed", "failed", "lease_owner", "error"), rows):
        yield f"  {line}"


def _block(name: str, text: str, limit: int | None, *, is_json: bool, raw: bool) -> Iterator[str]:
    if is_json:
        try:
            text = _pretty(text, raw)
        except ValueError:
            text = text if raw else redact(text)
            name = f"{name} (damaged: not JSON, shown as it is stored)"
    cut = 0 if limit is None else max(len(text) - limit, 0)
    yield name
    for line in (text[:limit] if cut else text).split("\n"):
        yield f"  {escape(line)}"
    if cut:
        yield f"  … {cut:,} more characters: --full shows them"


def _field(value: object, now: datetime) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return f"{utc(value)} ({relative(value, now)})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(str(value))


def _due(job: Job, now: datetime) -> str:
    if not job.status.is_claimable:
        return "-"
    return f"blocked: {job.blocked_by}" if job.blocked_by else relative(job.scheduled_at, now)


def _decode(text: str, raw: bool) -> Any:
    # Not msgspec: whole numbers of any size stay exact.
    from json import loads

    try:
        value = loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value if raw else redact_value(value)


def _pretty(text: str, raw: bool) -> str:
    from json import dumps

    return dumps(_decode(text, raw), ensure_ascii=False, indent=2)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
