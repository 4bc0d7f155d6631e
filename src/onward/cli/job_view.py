"""A job as JSON, and as text for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from onward.cli.output import escape, relative, rough, shorten, utc
from onward.cli.tables import Paint, put_table, table
from onward.jobs import Attempt, Job
from onward.redact import REDACTED, redact, redact_value
from onward.secret_fields import SecretFields
from onward.status import Status

if TYPE_CHECKING:
    from onward.app import Onward

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


def secrets_of(job: Job, app: Onward | None) -> SecretFields | None:
    """What the application marks as secret in the payload; None where there is no application, or it does not know the job's type."""
    definition = app.definitions.get(job.type) if app else None
    return None if definition is None else definition.codec.secrets


def job_json(job: Job, *, raw: bool = False, secrets: SecretFields | None = None) -> dict[str, Any]:
    """Every field, by its one name. What holds JSON is given decoded; where that fails it is null, and as stored under ``damaged``.

    Secrets are taken out, unless ``raw``: those that the payload's type marks (``secrets``), and what looks like one.
    """
    fields: dict[str, Any] = msgspec.to_builtins(job)
    damaged = {}
    for name in _JSON_FIELDS:
        text = fields[name]
        if text is not None:
            marked = secrets if name == "payload" else None
            try:
                fields[name] = _decode(text, raw, marked)
            except ValueError:
                fields[name], damaged[name] = None, _damaged(text, raw, marked)
    fields["error"] = without_marked(job.error, job, raw=raw, secrets=secrets)
    if damaged:
        fields["damaged"] = damaged
    return fields


def without_marked(error: str | None, job: Job, *, raw: bool, secrets: SecretFields | None) -> str | None:
    """The error of a job or of one of its attempts. A worker has taken out what is secret; it may have been marked only since."""
    return error if raw or error is None or not secrets else secrets.hiding(job.payload)(error)


def put_jobs(jobs: Sequence[Job], now: datetime, app: Onward | None = None) -> None:
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
                shorten((without_marked(job.error, job, raw=False, secrets=secrets_of(job, app)) or "").partition("\n")[0], 60),
            )
            for job in jobs
        ],
        {"status": paint_status},
    )


def job_lines(
    job: Job,
    why: str,
    attempts: Sequence[Attempt],
    now: datetime,
    *,
    whole: bool = False,
    raw: bool = False,
    secrets: SecretFields | None = None,
) -> Iterator[str]:
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
        text = without_marked(job.error, job, raw=raw, secrets=secrets) if name == "error" else getattr(job, name)
        if text is not None:
            marked = secrets if name == "payload" else None
            yield from _block(name, text, limit, is_json=name != "error", raw=raw, secrets=marked)
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


def _block(name: str, text: str, limit: int | None, *, is_json: bool, raw: bool, secrets: SecretFields | None) -> Iterator[str]:
    if is_json:
        try:
            text = _pretty(text, raw, secrets)
        except ValueError:
            text = _damaged(text, raw, secrets)
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


def _damaged(text: str, raw: bool, secrets: SecretFields | None) -> str:
    """What is no JSON. Where the secrets of a payload stand in it nobody knows, so it is not shown if it may have any."""
    return text if raw else REDACTED if secrets else redact(text)


def _decode(text: str, raw: bool, secrets: SecretFields | None = None) -> Any:
    # Not msgspec: whole numbers of any size stay exact.
    from json import loads

    try:
        value = loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value if raw else redact_value(secrets.mask(value) if secrets else value)


def _pretty(text: str, raw: bool, secrets: SecretFields | None) -> str:
    from json import dumps

    return dumps(_decode(text, raw, secrets), ensure_ascii=False, indent=2)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
