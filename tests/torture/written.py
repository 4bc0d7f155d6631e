"""Files that the application of a run writes and removes, each time as the effect of a job."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from onward import JobContext, Onward
from onward.driver import Store
from onward.files import (
    CreateFile,
    DeleteFile,
    Promise,
    Reconciliation,
    compare,
    create_file,
    delete_file,
    digest,
    find_leftovers,
    sweep_temporaries,
)
from onward.jobs import Job
from tests.torture import planted
from tests.torture.notes import note

BASE = "TORTURE_FILES"
"""The environment variable that names the folder of the files."""
PLAIN, SWAPPED, EDITED = "plain", "swapped", "edited"
FOLDERS = (PLAIN, SWAPPED, EDITED)
"""What is below the base: one is nobody else's, one is swapped for a link by a fault, in one a fault edits files."""
FILES = 5
"""Files in each folder: few, so that jobs meet."""


def path_of(number: int) -> str:
    """The file that a job with this number is about."""
    return f"{FOLDERS[number % len(FOLDERS)]}/{number // len(FOLDERS) % FILES}"


def write_of(number: int) -> CreateFile:
    return CreateFile(path_of(number), f"{number}\n" * (1 + number % 100), overwrite=True)


def remove_of(number: int) -> DeleteFile:
    return DeleteFile(path_of(number))


class Files:
    """Its two handlers, and the comparison of what they promised with what is there."""

    name = "files"

    def __init__(self, base: Path | None = None) -> None:
        self.base = base or Path(os.environ.get(BASE, os.devnull))

    def write(self, payload: CreateFile, ctx: JobContext) -> None:
        note("started", ctx)
        create_file(self.base, payload.path, payload.content, ctx, overwrite=payload.overwrite, only_if=_noting_the_end(ctx))

    def remove(self, payload: DeleteFile, ctx: JobContext) -> None:
        note("started", ctx)
        delete_file(self.base, payload.path, ctx, only_if=_noting_the_end(ctx))

    def reconcile(self, store: Store) -> Reconciliation:
        return compare(self.base, store, {"write": _written, "remove": _removed})

    def sweep(self, store: Store) -> list[str]:
        return sweep_temporaries(self.base, store)


def _noting_the_end(ctx: JobContext) -> Callable[[Any], bool]:
    def is_wanted(connection: object) -> bool:
        """Asked in the transaction that places the file and completes the job."""
        note("ended", ctx)
        return not planted.is_planted(planted.UNPLACED)

    return is_wanted


def _written(job: Job) -> Promise:
    payload = msgspec.json.decode(job.payload, type=CreateFile)
    return Promise(payload.path, digest(payload.content.encode()))


def _removed(job: Job) -> Promise:
    return Promise(msgspec.json.decode(job.payload, type=DeleteFile).path, None)


def disagreements(base: Path, url: str) -> tuple[str, ...]:
    """Where the files are not what the store says, and what is left over, once a worker's start has swept."""
    files, app = Files(base), Onward(url)
    app.store.open()
    try:
        files.sweep(app.store)
        left = tuple(f"a temporary file is left: {leftover.path}, {leftover.reason}" for leftover in find_leftovers(base, app.store))
        return tuple(files.reconcile(app.store).discrepancies) + left
    finally:
        app.close()
