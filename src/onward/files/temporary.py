"""Our temporary files: what they are called, whose they are, and when one may go.

They lie in the target's own directory, so that placing never crosses a file system, and carry the claim that made them:

- ``.onward-<job id>-<fence>.tmp``: new content, not yet in its place;
- ``.onward-<job id>-<fence>.del``: a deleted file, moved aside until the deletion is committed. It is the proof, for a second try
  after a crash, that the first one found the file.

The store is the authority on which of them are in use.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Literal, TypeAlias

from msgspec import Struct

from onward.driver import Store
from onward.errors import JobNotFound
from onward.files.safe_path import OUR_PREFIX, opened, walk_below
from onward.jobs import Job
from onward.status import Status

Kind: TypeAlias = Literal["tmp", "del"]
_NAME = re.compile(re.escape(OUR_PREFIX) + r"([0-9A-HJKMNP-TV-Z]{26})-([0-9]{1,19})\.(tmp|del)", re.ASCII)


class Temporary(Struct, frozen=True):
    """One of our temporary files, as its name tells."""

    job_id: str
    fence: int
    kind: Kind

    @property
    def name(self) -> str:
        return f"{OUR_PREFIX}{self.job_id}-{self.fence}.{self.kind}"


class Leftover(Struct, frozen=True):
    """A temporary file on disk, and why it is there."""

    path: str
    verdict: Literal["in use", "stale", "kept"]
    """``stale`` may be removed. ``kept`` is a person's to judge: a file that was moved aside for a deletion that never took place."""
    reason: str


def temporary_of(job: Job, kind: Kind) -> Temporary:
    """Name the temporary file of this claim."""
    return Temporary(job.id, job.fence, kind)


def read_name(name: str) -> Temporary | None:
    """Read a file name; None when it is not one of ours."""
    if match := _NAME.fullmatch(name):
        return Temporary(match[1], int(match[2]), "tmp" if match[3] == "tmp" else "del")
    return None


def write_temporary(directory: int, name: str, content: bytes, mode: int | None) -> None:
    """Write content to a new file and make it durable. ``mode`` None leaves the mode to the umask."""
    with opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=directory) as descriptor:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def remove_name(directory: int, name: str) -> None:
    """Remove a file if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def of_job(directory: int, job: Job, kind: Kind) -> list[str]:
    """Name the temporary files that this job's claims left in a directory.

    Looks only when there can be any: the first claim of a job has no predecessor.
    """
    if job.fence <= 1:
        return []
    with os.scandir(directory) as entries:
        ours = [(entry.name, read_name(entry.name)) for entry in entries if entry.name.startswith(OUR_PREFIX)]
    return [name for name, found in ours if found and found.job_id == job.id and found.kind == kind]


def find_leftovers(base: str | os.PathLike[str], store: Store) -> list[Leftover]:
    """List our temporary files below ``base`` and say of each whether it is in use. Changes nothing."""
    return [_judge(path, found, store) for path, found in _temporaries(base)]


def sweep_temporaries(base: str | os.PathLike[str], store: Store) -> list[str]:
    """Remove our stale temporary files below ``base``, never one in use and never a file that is not ours. Gives their paths.

    Meant for the start of a worker. Safe beside running workers, and beside other sweeps.
    """
    swept = []
    for path, name, directory in walk_below(base):
        if (found := read_name(name)) and _judge(path, found, store).verdict == "stale":
            remove_name(directory, name)
            swept.append(path)
    return swept


def _temporaries(base: str | os.PathLike[str]) -> list[tuple[str, Temporary]]:
    return [(path, found) for path, name, _ in walk_below(base) if (found := read_name(name))]


def _judge(path: str, found: Temporary, store: Store) -> Leftover:
    # The name was seen before the job is read, and a claim that is over stays over: so "stale" cannot become wrong.
    is_aside = found.kind == "del"
    try:
        job = store.get(found.job_id)
    except JobNotFound:
        return Leftover(path, "kept" if is_aside else "stale", f"its job {found.job_id} is gone")
    if job.status.is_final:
        never_deleted = is_aside and job.status is not Status.COMPLETED
        return Leftover(path, "kept" if never_deleted else "stale", f"its job {job.id} is {job.status}")
    if is_aside:
        return Leftover(path, "in use", f"its job {job.id} has not recorded its deletion yet")
    if job.status is Status.IN_PROGRESS and job.fence == found.fence:
        return Leftover(path, "in use", f"its job {job.id} is writing it")
    return Leftover(path, "stale", f"the claim {found.fence} of its job {job.id} is over")
