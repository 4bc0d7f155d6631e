"""``FileJobs``: the two job types that write and delete files below a base directory, and the check that compares them with the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from onward.context import JobContext
from onward.definition import JobDefinition, define_job
from onward.driver import Store
from onward.files.create import create_file
from onward.files.delete import delete_file
from onward.files.reconcile import Promise, ReadPromise, Reconciliation, compare
from onward.files.safe_path import digest, split_path
from onward.files.temporary import sweep_temporaries
from onward.jobs import Job


class CreateFile(Struct, frozen=True):
    """Payload of ``create_file``."""

    path: str
    """Relative to the base directory, parts divided by ``/``."""
    content: str
    """Written as UTF-8."""
    overwrite: bool = False
    """Replace other content; without it, other content is a permanent error."""

    def __post_init__(self) -> None:
        split_path(self.path)


class DeleteFile(Struct, frozen=True):
    """Payload of ``delete_file``."""

    path: str
    require_exists: bool = False
    """A missing file is a permanent error."""
    sha256: str | None = None
    """Delete only this content (SHA-256 in hex): a file written anew since stays, as a permanent error."""

    def __post_init__(self) -> None:
        split_path(self.path)


class FileJobs:
    """Jobs ``create_file`` and ``delete_file`` below one base directory, which must exist before they run.

    Give ``files.jobs`` to ``Onward(jobs=...)`` and the object itself to ``reconcile=``. ``rules`` are the keywords of ``define_job`` for
    both (queue, retry, lease, ...). One base directory belongs to one store: the store says which files are right and which temporary
    files are in use.
    """

    name = "files"

    def __init__(self, base: str | os.PathLike[str], **rules: Any) -> None:
        self.base = Path(base)
        self.create: JobDefinition[CreateFile] = define_job("create_file", self._create, **rules)
        self.delete: JobDefinition[DeleteFile] = define_job("delete_file", self._delete, **rules)
        self.jobs: tuple[JobDefinition[Any], ...] = (self.create, self.delete)

    def reconcile(self, store: Store) -> Reconciliation:
        """Compare completed jobs with the disk. Reports, never repairs."""
        created: ReadPromise = _reader(self.create, lambda payload: Promise(payload.path, digest(payload.content.encode())))
        deleted: ReadPromise = _reader(self.delete, lambda payload: Promise(payload.path, None))
        promises = dict.fromkeys(_names(self.create), created) | dict.fromkeys(_names(self.delete), deleted)
        return compare(self.base, store, promises)

    def sweep(self, store: Store) -> list[str]:
        """Remove the temporary files that killed workers left and nobody uses; gives their paths. For the start of a worker."""
        return sweep_temporaries(self.base, store)

    def _create(self, payload: CreateFile, context: JobContext) -> None:
        create_file(self.base, payload.path, payload.content, context, overwrite=payload.overwrite)

    def _delete(self, payload: DeleteFile, context: JobContext) -> None:
        delete_file(self.base, payload.path, context, require_exists=payload.require_exists, sha256=payload.sha256)


def _names(definition: JobDefinition[Any]) -> tuple[str, ...]:
    return (definition.name, *definition.aliases)


def _reader(definition: JobDefinition[Any], promise: Callable[[Any], Promise]) -> ReadPromise:
    def read(job: Job) -> Promise:
        return promise(definition.codec.decode(job.payload))

    return read
