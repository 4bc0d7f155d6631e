"""Places that cannot be written: a file-size limit, a full disk, a file system that is read-only. The last two need root."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from tests.torture.injectors import mount_tool
from tests.torture.shop import BOOK, Shop, job_id, make_tables
from tests.torture.syscalls.before import tables
from tests.torture.syscalls.points import what_is_there

DISK = 2 << 20
"""Bytes of the small disk."""


class Place(Struct):
    """A home whose storage fails until it is mended."""

    home: Path
    there: list[str]
    """What was prepared, as lines of ``tests.torture.promises``."""
    mend: Callable[[list[int]], object] = lambda pids: None
    """Is told the processes that met the fault."""
    hurt: Callable[[list[int]], object] = lambda pids: None
    """Brings the fault on, where it is not there from the start."""
    before: Callable[[], object] | None = None
    """To be run in the process that is to meet the fault."""
    behind: Path | None = None
    """Where the same files can be looked at."""


@contextmanager
def limited(room: Path, prepare: Callable[[Path], None], free: int) -> Iterator[Place]:
    """No file of the process may grow beyond the database by more than ``free`` bytes (``RLIMIT_FSIZE``)."""
    home = _prepared(room / "limited", prepare)
    size = (home / "jobs.db").stat().st_size + free

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    yield Place(home, what_is_there(home), before=limit, mend=_lift)


@contextmanager
def limited_later(room: Path, jobs: Callable[[Path], None]) -> Iterator[Place]:
    """A worker that is under way may not let any file grow any more; then come the jobs."""
    home = _prepared(room / "limited", tables)

    def hurt(pids: list[int]) -> None:
        size = (home / "jobs.db").stat().st_size
        for pid in pids[1:]:  # the supervisor writes nothing
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        jobs(home)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    yield Place(home, [], before=limit, hurt=hurt, mend=_lift)


@contextmanager
def full(room: Path, prepare: Callable[[Path], None], free: int) -> Iterator[Place]:
    """A disk of its own with ``free`` bytes left. Raises ``MissingInjector``."""
    disk = room / "disk"
    with _mounted(disk, "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs"):
        home = _prepared(disk / "home", prepare)
        filler, there = disk / "filler", what_is_there(home)
        _fill(filler, free)
        yield Place(home, there, mend=lambda pids: filler.unlink())
        with suppress(FileNotFoundError):
            filler.unlink()


@contextmanager
def read_only(room: Path, prepare: Callable[[Path], None]) -> Iterator[Place]:
    """The same directory in two places, one of which is read-only. Raises ``MissingInjector``."""
    behind, home = _prepared(room / "behind", prepare), room / "read-only"
    with _mounted(home, "--bind", str(behind)):
        _mount("-o", "remount,bind,ro", str(home))
        yield Place(home, what_is_there(behind), mend=lambda pids: _mount("-o", "remount,bind,rw", str(home)), behind=behind)


def prepared_jobs(many: int) -> Callable[[Path], None]:
    """Tables, and jobs with an effect that wait."""

    def prepare(home: Path) -> None:
        shop = Shop(home)
        make_tables(shop)
        shop.app.enqueue_many([BOOK.new_job(number, id=job_id(number)) for number in range(1, many + 1)])
        shop.close()

    return prepare


def _lift(pids: list[int]) -> None:
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _prepared(home: Path, prepare: Callable[[Path], None]) -> Path:
    home.mkdir(parents=True)
    prepare(home)
    return home


def _fill(filler: Path, free: int) -> None:
    """Take all that is there, then give some back."""
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    with filler.open("r+b") as file:
        file.truncate(max(filler.stat().st_size - free, 0))


@contextmanager
def _mounted(place: Path, *how: str) -> Iterator[None]:
    mount_tool()
    place.mkdir(parents=True)
    _mount(*how, str(place))
    try:
        yield
    finally:
        subprocess.run([shutil.which("umount") or "umount", "--lazy", str(place)], check=True)
        os.rmdir(place)


def _mount(*arguments: str) -> None:
    subprocess.run([mount_tool(), *arguments], check=True)
