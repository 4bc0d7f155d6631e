"""What others do to the files that jobs write and remove, at the same time."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.torture.faults.kinds import Fault
from tests.torture.fleet import Fleet
from tests.torture.injectors import MissingInjector
from tests.torture.written import EDITED, FILES, FOLDERS, SWAPPED

JOBS = 30
AT_FDCWD, RENAME_EXCHANGE = -100, 2
VICTIM = b"nobody's business\n"


def swap_links(fleet: Fleet) -> None:
    """A folder and a link that leads out of the base change places over and over: no job may follow it."""
    outside = _outside(fleet)
    folder, link = fleet.files / SWAPPED, fleet.files.parent / "link"
    if not link.is_symlink():
        link.symlink_to(outside)
    _exchange(folder, link)
    _exchange(folder, link)

    def swap() -> None:
        # The folder is in its place after each second exchange, and so at the end.
        _exchange(folder, link)
        _exchange(folder, link)

    _race(fleet, "swap links", SWAPPED, swap, outside)


def edit_files(fleet: Fleet) -> None:
    """Somebody else writes, removes and replaces the files of jobs, by links and folders too."""
    outside = _outside(fleet)
    paths = [fleet.files / EDITED / str(number) for number in range(FILES)]
    numbers = iter(range(10**9))

    def edit() -> None:
        number = next(numbers)
        path = paths[number // 5 % FILES]
        with suppress(OSError):  # a job may have changed it in the same moment
            _EDITS[number % 5](path, outside / path.name)

    _race(fleet, "edit files", EDITED, edit, outside)
    for path in paths:
        with suppress(OSError):
            _clear(path, path)
    # What was promised of these files holds again once each was written anew.
    for job_id in [fleet.enqueue("write", _number(EDITED, which, 100)) for which in range(FILES)]:
        fleet.wait_until_final(job_id)


def _race(fleet: Fleet, fault: str, folder: str, move: Callable[[], None], outside: Path) -> None:
    """Do ``move`` over and over while jobs run on the files of a folder."""
    fleet.history.write("fault", fault)
    with _over_and_over(move):
        which = [_number(folder, number % FILES, fleet.chance.randrange(100)) for number in range(JOBS)]
        for job_id in [fleet.enqueue(fleet.chance.choice(("write", "write", "remove")), number) for number in which]:
            fleet.wait_until_final(job_id)
    fleet.history.write("healed", fault)
    found = {path.name: path.read_bytes() for path in outside.iterdir()}
    if found != {str(number): VICTIM for number in range(FILES)}:
        fleet.failures.append(f"a job went over a link, out of the base, with {fault!r}: {sorted(found)}")


def _number(folder: str, which: int, content: int) -> int:
    """The number of a job on this file of this folder."""
    return (content * FILES + which) * len(FOLDERS) + FOLDERS.index(folder)


def _outside(fleet: Fleet) -> Path:
    """A folder beside the base, with a file for each name that a job may ask for."""
    outside = fleet.files.parent / "outside"
    outside.mkdir(exist_ok=True)
    for number in range(FILES):
        (outside / str(number)).write_bytes(VICTIM)
    return outside


@contextmanager
def _over_and_over(move: Callable[[], None]) -> Iterator[None]:
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.0005):
            move()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _exchange(one: Path, other: Path) -> None:
    """Let two names change places in one step. Raises ``MissingInjector``."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise MissingInjector("this C library cannot exchange two names in one step, which makes this fault (Linux only)")
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise MissingInjector(f"this file system cannot exchange two names in one step: {os.strerror(ctypes.get_errno())}")


def _clear(path: Path, _: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _link(path: Path, to: Path) -> None:
    path.symlink_to(to)


def _make_folder(path: Path, _: Path) -> None:
    path.mkdir()


def _write(path: Path, _: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.write(b"by somebody else\n")


_EDITS = (_write, _clear, _link, _clear, _make_folder)

FAULTS = (
    Fault("swap links", 45, swap_links),
    Fault("edit files", 45, edit_files),
)
