"""The model store: JSON files that are read directly and changed only through jobs.

A change is accepted when its job is: the job row holds the new content, and its handler places the file. A crash at any point leaves no
accepted change without its file or a live job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from msgspec import Struct

from examples.files import versions
from examples.files.database import connect, install
from examples.files.handlers import (
    DeleteModel,
    WriteModel,
    WriteSummary,
    delete_model,
    delete_summary,
    is_superseded,
    model_path,
    summary_path,
    write_model,
    write_summary,
)
from examples.files.home import MODELS, URL
from onward import InvalidPayload, Job, JobHandle, JobNotFound, Onward
from onward.driver import Store
from onward.files import Promise, Reconciliation, compare, digest, read_file, sweep_temporaries

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Reading(Struct, frozen=True):
    """A model as it is on disk, and what is accepted beyond that."""

    model: dict[str, Any] | None
    """None when there is no file."""
    newer: Job | None = None
    """The job of the newest accepted write (or deletion) that is not on disk yet."""

    @property
    def is_pending(self) -> bool:
        """True when a newer write will be on disk without anybody's doing."""
        return self.newer is not None and self.newer.status.is_live

    @property
    def has_failed(self) -> bool:
        """True when the newest write will not be on disk unless a person retries its job."""
        return self.newer is not None and self.newer.status.is_final


class Models:
    """Write, read, list and delete models. Every write survives the writer."""

    def __init__(self, app: Onward) -> None:
        self._app = app
        install(app, URL)

    def write(self, model: Mapping[str, Any], *, priority: int = 0) -> JobHandle:
        """Accept a model's new content; ``model["id"]`` names it. Of two writes the one accepted later wins, in whatever order they run."""
        model_id = check_id(model.get("id"))
        content = json.dumps(model, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"
        path = model_path(model_id)
        with self._app.transaction() as connection:
            version = versions.accept(connection, path)
            handle = self._app.enqueue(write_model, WriteModel(model_id, version, content), priority=priority, within=connection)
            versions.name_job(connection, path, handle.id)
        return handle

    def delete(self, model_id: str) -> JobHandle:
        """Accept a model's deletion."""
        path = model_path(check_id(model_id))
        with self._app.transaction() as connection:
            version = versions.accept(connection, path)
            handle = self._app.enqueue(delete_model, DeleteModel(model_id, version), within=connection)
            versions.name_job(connection, path, handle.id)
        return handle

    def read(self, model_id: str) -> Reading:
        """Read a model from its file, and say whether a newer write is pending or has failed."""
        path = model_path(check_id(model_id))
        # The versions first: a write that is placed after them is then called pending once too often, never once too seldom.
        newer = self._newest_unplaced(path)
        content = read_file(MODELS, path)
        return Reading(None if content is None else json.loads(content), newer)

    def list(self) -> list[str]:
        """The ids of the models on disk."""
        return sorted(path.stem for path in MODELS.glob("*.json"))

    def _newest_unplaced(self, path: str) -> Job | None:
        with closing(connect(URL)) as connection:
            job_id = versions.newest_unplaced(connection, path)
        try:
            return self._app.get(job_id) if job_id else None
        except JobNotFound:
            return None


class ModelCheck:
    """Compares the models and their companions with the jobs that wrote them. For ``Onward(reconcile=...)``."""

    name = "models"

    def reconcile(self, store: Store) -> Reconciliation:
        """Report what differs; repair nothing."""
        return compare(
            MODELS,
            store,
            {
                write_model.name: _promise_of_write,
                write_summary.name: _promise_of_summary,
                delete_model.name: _promise_of_deletion,
                delete_summary.name: _promise_of_summary_deletion,
            },
        )

    def sweep(self, store: Store) -> list[str]:
        """Remove what killed workers left."""
        return sweep_temporaries(MODELS, store)


def check_id(model_id: object) -> str:
    """Give an id back if it can be one. Raises ``InvalidPayload``."""
    if not isinstance(model_id, str) or not _ID.fullmatch(model_id):
        raise InvalidPayload(f"a model's id is 1 to 64 letters, digits, _ or -, not {model_id!r:.80}", path="$.id")
    return model_id


def _promise_of_write(job: Job) -> Promise | None:
    written: WriteModel = write_model.codec.decode(job.payload)
    return _unless_superseded(job, Promise(model_path(written.id), digest(written.content.encode())))


def _promise_of_summary(job: Job) -> Promise | None:
    written: WriteSummary = write_summary.codec.decode(job.payload)
    return _unless_superseded(job, Promise(summary_path(written.id), digest(written.content.encode())))


def _promise_of_deletion(job: Job) -> Promise | None:
    return _unless_superseded(job, Promise(model_path(delete_model.codec.decode(job.payload).id), None))


def _promise_of_summary_deletion(job: Job) -> Promise | None:
    return _unless_superseded(job, Promise(summary_path(delete_summary.codec.decode(job.payload).id), None))


def _unless_superseded(job: Job, promise: Promise) -> Promise | None:
    return None if is_superseded(job.progress) else promise
