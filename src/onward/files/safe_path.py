"""Paths that stay below a base directory, whatever they say and whoever swaps links meanwhile.

A path is text relative to the base, with ``/`` between its parts. It is never handed to the kernel whole: each directory is opened
below the one before, by descriptor and without following a link, so a link swapped in at any moment is refused, not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from onward.errors import InvalidPayload, PermanentJobError, TransientJobError

LONGEST_PATH = 1024
LONGEST_NAME = 255
DEEPEST = 64
"""Levels. Whoever looks through the base holds a descriptor for each, and a process may have as few as 256."""
OUR_PREFIX = ".onward-"
"""Names that begin so are ours: temporary files. No job may ask for one."""

_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_LINK_OR_NO_DIRECTORY = (errno.ENOTDIR, errno.ELOOP)


class UnsafePath(InvalidPayload, ValueError):
    """The path cannot name a file below the base directory. Refused at enqueue, and never retried."""

    def __init__(self, message: str) -> None:
        super().__init__(message, path="$.path")


def split_path(path: str) -> tuple[str, ...]:
    """Give the parts of a path that stays below its base. Raises ``UnsafePath``."""
    if not path:
        raise UnsafePath("the path is empty: name a file below the base directory")
    if path.startswith("/"):
        raise UnsafePath(f"the path {path!r:.200} is absolute: give it relative to the base directory")
    if any(ord(character) < 32 or character == "\x7f" for character in path):
        raise UnsafePath(f"the path {path!r:.200} has a control character: use printable ones")
    try:
        sizes = [len(part.encode()) for part in path.split("/")]
    except UnicodeEncodeError:
        raise UnsafePath(f"the path {path!a:.200} cannot be written as UTF-8: it has a lone surrogate") from None
    if sum(sizes) + len(sizes) - 1 > LONGEST_PATH or max(sizes) > LONGEST_NAME:
        raise UnsafePath(f"the path {path[:60]!r}… is too long: at most {LONGEST_NAME} bytes a name and {LONGEST_PATH} in all")
    parts = tuple(path.split("/"))
    if len(parts) > DEEPEST:
        raise UnsafePath(f"the path {path[:60]!r}… has {len(parts)} levels: at most {DEEPEST} are allowed")
    for part in parts:
        if part in ("", ".", ".."):
            raise UnsafePath(f"the path {path!r:.200} has an empty part, '.' or '..': write the plain path of a file below the base")
        if part.startswith(OUR_PREFIX):
            raise UnsafePath(f"the path {path!r:.200} has a name that begins with {OUR_PREFIX!r}: those are kept for temporary files")
    return parts


@contextmanager
def parent_directory(base: str | os.PathLike[str], path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the directory that holds the file, and give its descriptor and the file's name.

    ``make`` creates the directories on the way (mode by the umask) and makes each durable in the one above. Without it a missing one
    raises ``FileNotFoundError``. Raises ``UnsafePath``, ``PermanentJobError`` when the way leads over a link or a file, and
    ``TransientJobError`` when the base directory itself is missing.
    """
    *above, name = split_path(path)
    directory = open_base(base)
    try:
        for part in above:
            below = _step(directory, part, path, make)
            directory, passed = below, directory
            os.close(passed)
        yield directory, name
    finally:
        os.close(directory)


def open_base(base: str | os.PathLike[str]) -> int:
    """Open the base directory, which the application chose: it alone may be reached over links. The caller closes it."""
    try:
        return os.open(base, _DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        raise TransientJobError(f"the base directory {os.fspath(base)} does not exist: create it, or mount it") from None


def open_below(directory: int, name: str) -> int:
    """Open a directory in a directory, never over a link. The caller closes it."""
    return os.open(name, _DIRECTORY | _NO_LINK, dir_fd=directory)


def _step(directory: int, part: str, path: str, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=directory)
        # Also when it was there: another job may have made it a moment ago, and not yet made it durable.
        os.fsync(directory)
    try:
        return open_below(directory, part)
    except OSError as error:
        if error.errno in _LINK_OR_NO_DIRECTORY:
            raise PermanentJobError(
                f"{part!r} in the path {path!r} is no directory but a file or a link: links are never followed"
            ) from None
        raise


@contextmanager
def opened(name: str, flags: int, *, dir_fd: int, mode: int = 0o666) -> Iterator[int]:
    """Open a file in a directory, never over a link, and close it once whatever happens."""
    descriptor = os.open(name, flags | _NO_LINK, mode, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def find_file(directory: int, name: str) -> os.stat_result | None:
    """Look at a regular file; None when nothing is there. Raises ``PermanentJobError`` for a directory, a link or anything else."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise PermanentJobError(f"{name!r} is a {kind_of(found)}, not a regular file: only regular files are written or deleted")
    return found


def read_bytes(directory: int, name: str) -> bytes | None:
    """Read a regular file; None when nothing is there. Raises ``PermanentJobError`` as ``find_file`` does."""
    if find_file(directory, name) is None:
        return None
    try:
        # Without O_NONBLOCK a pipe that was swapped in would hold us for ever.
        with opened(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0), dir_fd=directory) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PermanentJobError(f"{name!r} is not a regular file any more")
            blocks = []
            while block := os.read(descriptor, 1 << 20):
                blocks.append(block)
            return b"".join(blocks)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise PermanentJobError(f"{name!r} became a link or a socket meanwhile: links are never followed") from None
        raise


def digest(content: bytes) -> str:
    """SHA-256 in hex."""
    return sha256(content).hexdigest()


def read_file(base: str | os.PathLike[str], path: str) -> bytes | None:
    """Read the file at ``path`` below ``base``; None when there is none. Raises as ``parent_directory`` does."""
    try:
        with parent_directory(base, path) as (directory, name):
            return read_bytes(directory, name)
    except FileNotFoundError:
        return None


def walk_below(base: str | os.PathLike[str]) -> Iterator[tuple[str, str, int]]:
    """Give every entry below ``base`` that is not a directory: its path, its name, and its directory's descriptor, open until the next.

    Never enters a link. A directory that goes away meanwhile is passed over.
    """
    descriptor = open_base(base)
    try:
        yield from _walk(descriptor, "")
    finally:
        os.close(descriptor)


def _walk(directory: int, prefix: str) -> Iterator[tuple[str, str, int]]:
    with os.scandir(directory) as entries:
        found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_directory in found:
        if not is_directory:
            yield prefix + name, name, directory
            continue
        try:
            below = open_below(directory, name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno == errno.ELOOP:
                continue
            raise
        try:
            yield from _walk(below, f"{prefix}{name}/")
        finally:
            os.close(below)


def kind_of(found: os.stat_result) -> str:
    """Say what a thing on disk is, in one word or two."""
    for is_kind, word in (
        (stat.S_ISREG, "regular file"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
    ):
        if is_kind(found.st_mode):
            return word
    return "device"
