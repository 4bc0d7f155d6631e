"""Remove a file, once, also when its job runs twice.

The file is moved aside inside the store's transaction and removed after the commit. A try that dies in between leaves it aside under
the job's own name, and so the next try knows that the file was there: ``require_exists`` is judged right however often the job runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from onward.context import JobContext
from onward.errors import PermanentJobError
from onward.files.create import OnlyIf
from onward.files.order import one_at_a_time
from onward.files.safe_path import digest, find_file, parent_directory, read_bytes
from onward.files.temporary import of_job, remove_name, temporary_of


def delete_file(
    base: str | os.PathLike[str],
    path: str,
    context: JobContext,
    *,
    require_exists: bool = False,
    sha256: str | None = None,
    only_if: OnlyIf | None = None,
) -> None:
    """Remove the file at ``path`` below ``base`` and complete the job of ``context``.

    A missing file is success, or ``PermanentJobError`` with ``require_exists``. With ``sha256`` (hex) only that content is removed: another
    raises ``PermanentJobError``, so that a file written anew since is safe. A directory is refused, a link neither followed nor removed.
    Raises ``UnsafePath`` and ``LeaseLost`` as ``create_file`` does.
    """
    with _parent_if_any(base, path) as (directory, name):
        aside = temporary_of(context.job, "del").name
        with context.transaction() as connection, one_at_a_time(directory, connection):
            if only_if is None or only_if(connection):
                was_there = directory is not None and _move_aside(directory, name, aside, path, sha256)
                if require_exists and not was_there and not (directory is not None and of_job(directory, context.job, "del")):
                    raise PermanentJobError(f"{path!r} does not exist, and require_exists asks that it does")
                if directory is not None:
                    os.fsync(directory)
        if directory is not None:
            for name_aside in {aside, *of_job(directory, context.job, "del")}:
                remove_name(directory, name_aside)


def _move_aside(directory: int, name: str, aside: str, path: str, sha256: str | None) -> bool:
    if find_file(directory, name) is None:
        return False
    _check_content(directory, name, path, sha256)
    try:
        os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
    except FileNotFoundError:
        return False
    try:
        find_file(directory, aside)
        _check_content(directory, aside, path, sha256)
    except PermanentJobError:
        # Something else was swapped in since we looked: it goes back as it was, unless a still newer one has its name.
        if find_file(directory, name) is None:
            os.rename(aside, name, src_dir_fd=directory, dst_dir_fd=directory)
        raise
    return True


def _check_content(directory: int, name: str, path: str, sha256: str | None) -> None:
    if sha256 is not None and (content := read_bytes(directory, name)) is not None and digest(content) != sha256.lower():
        raise PermanentJobError(f"{path!r} has changed: its content is not the one that was to be deleted")


@contextmanager
def _parent_if_any(base: str | os.PathLike[str], path: str) -> Iterator[tuple[int | None, str]]:
    with ExitStack() as held:
        directory: int | None
        try:
            directory, name = held.enter_context(parent_directory(base, path))
        except FileNotFoundError:
            directory, name = None, path
        yield directory, name
