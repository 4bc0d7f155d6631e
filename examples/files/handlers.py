"""What the application's jobs do. Each is safe to run twice, and completes in the transaction that decides whether its file is placed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct

from examples.files import versions
from examples.files.home import FILES, LEASE, MODELS
from onward import JobContext, RetryPolicy, job
from onward.files import FileJobs, create_file, delete_file

RETRY = RetryPolicy(max_attempts=3, base="1s", cap="1m")
Then: TypeAlias = Callable[[], object] | None
"""What to queue when the file was placed, in the same commit."""

files = FileJobs(FILES, lease=LEASE, retry=RETRY)


class WriteModel(Struct, frozen=True):
    """A model's new content, accepted with the job."""

    id: str
    version: int
    content: str
    """The JSON text of the file."""


class WriteSummary(Struct, frozen=True):
    """The companion of a model file."""

    id: str
    version: int
    content: str


class DeleteModel(Struct, frozen=True):
    """A model that is to go, and its companion with it."""

    id: str
    version: int


def model_path(model_id: str) -> str:
    """Where a model lies, below the models' directory."""
    return f"{model_id}.json"


def summary_path(model_id: str) -> str:
    """Where its companion lies, beside it."""
    return f"summaries/{model_id}.txt"


@job("write_model", lease=LEASE, retry=RETRY)
def write_model(payload: WriteModel, ctx: JobContext) -> None:
    """Place the model's file, unless a newer one is there; then, and only then, queue its companion."""
    summary = WriteSummary(payload.id, payload.version, summarize(json.loads(payload.content)))
    _place(model_path(payload.id), payload, ctx, then=lambda: ctx.enqueue(write_summary, summary))


@job("write_summary", lease=LEASE, retry=RETRY)
def write_summary(payload: WriteSummary, ctx: JobContext) -> None:
    """Place a model's companion, unless a newer one is there."""
    _place(summary_path(payload.id), payload, ctx)


@job("delete_model", lease=LEASE, retry=RETRY)
def delete_model(payload: DeleteModel, ctx: JobContext) -> None:
    """Remove the model's file, unless a newer one is there; then, and only then, queue the removal of its companion."""
    _remove(model_path(payload.id), payload, ctx, then=lambda: ctx.enqueue(delete_summary, payload))


@job("delete_summary", lease=LEASE, retry=RETRY)
def delete_summary(payload: DeleteModel, ctx: JobContext) -> None:
    """Remove a model's companion, unless a newer one is there."""
    _remove(summary_path(payload.id), payload, ctx)


def summarize(model: dict[str, Any]) -> str:
    """A line that a person can read."""
    text = str(model.get("text", ""))
    return f"{model.get('id')} ({model.get('system', 'no system')}): {len(text.split())} words, begins {text[:40]!r}\n"


def is_superseded(progress: str | None) -> bool:
    """Read from a completed job that a newer one had been placed before it, so that it placed nothing."""
    return bool(progress) and "superseded" in json.loads(progress or "{}")


def _place(path: str, payload: WriteModel | WriteSummary, ctx: JobContext, then: Then = None) -> None:
    newest = partial(_is_newest, path, payload.version, ctx, then)
    create_file(MODELS, path, payload.content, ctx, overwrite=True, only_if=newest)


def _remove(path: str, payload: DeleteModel, ctx: JobContext, then: Then = None) -> None:
    delete_file(MODELS, path, ctx, only_if=partial(_is_newest, path, payload.version, ctx, then))


def _is_newest(path: str, version: int, ctx: JobContext, then: Then, connection: Any) -> bool:
    # Asked inside the transaction that completes the job: what is recorded and queued here is committed with it, or not at all.
    if not versions.take_place(connection, path, version):
        ctx.progress({"superseded": True})
        return False
    if then is not None:
        then()
    return True
