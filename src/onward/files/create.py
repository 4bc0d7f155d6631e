"""Write a file whole or not at all, and complete its job in the same breath.

The order is: temporary file, fsync, the store's transaction with the claim checked, placing, fsync of the directory, commit. A crash
at any point leaves the old file or the new one, and the job alive until the new one is durable.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import Any, TypeAlias

from onward.context import JobContext
from onward.errors import PermanentJobError
from onward.files.order import one_at_a_time
from onward.files.safe_path import find_file, opened, parent_directory, read_bytes
from onward.files.temporary import of_job, remove_name, temporary_of, write_temporary

OnlyIf: TypeAlias = Callable[[Any], bool]
"""Asked inside the store's transaction, with its connection: whether the file is to be touched. The job completes either way."""


def create_file(
    base: str | os.PathLike[str], path: str, content: str, context: JobContext, *, overwrite: bool = False, only_if: OnlyIf | None = None
) -> None:
    """Write ``content`` (as UTF-8) to ``path`` below ``base`` and complete the job of ``context``.

    The same content already there is success, and is not written again. Other content is replaced with ``overwrite``; without, the placing
    itself refuses it with ``PermanentJobError``. A new file gets its mode from the umask, a replaced one keeps its permission bits. Missing
    directories are made. Also raises ``UnsafePath``, and ``LeaseLost`` when the claim is not the newest any more: nothing is placed then.

    A context without a store raises ``OnwardError``: call it through a worker, ``onward.testing.drain`` or ``run_job``.
    """
    data = content.encode()
    with parent_directory(base, path, make=True) as (directory, name):
        for older in of_job(directory, context.job, "tmp"):
            remove_name(directory, older)
        temporary = temporary_of(context.job, "tmp").name
        try:
            is_written = read_bytes(directory, name) != data
            if is_written:
                write_temporary(directory, temporary, data, _mode_to_keep(directory, name))
            with context.transaction() as connection, one_at_a_time(directory, connection):
                if only_if is None or only_if(connection):
                    if read_bytes(directory, name) == data:
                        _make_durable(directory, name)
                    else:
                        if not is_written:  # somebody changed the file since we looked
                            write_temporary(directory, temporary, data, _mode_to_keep(directory, name))
                        _place(directory, temporary, name, data, path, overwrite)
                    os.fsync(directory)
        finally:
            remove_name(directory, temporary)


def _place(directory: int, temporary: str, name: str, data: bytes, path: str, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        return
    try:
        # A link is made or refused in one step: no gap between looking and renaming.
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        if read_bytes(directory, name) != data:
            raise PermanentJobError(f"{path!r} exists with other content: pass overwrite=True to replace it") from None
        _make_durable(directory, name)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP):
            raise PermanentJobError(f"{path!r} is on a file system without hard links: place it with overwrite=True") from None
        raise
    remove_name(directory, temporary)


def _make_durable(directory: int, name: str) -> None:
    # An earlier try of ours may have died before its fsync, or somebody else wrote the file.
    with opened(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0), dir_fd=directory) as descriptor:
        os.fsync(descriptor)


def _mode_to_keep(directory: int, name: str) -> int | None:
    found = find_file(directory, name)
    # Never set-user-id and its kin: the content comes from a queue.
    return None if found is None else stat.S_IMODE(found.st_mode) & 0o777
