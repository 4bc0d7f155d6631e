"""Control groups of Linux (version 1): a limit, or a freeze, for processes that run already."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from tests.torture.injectors import MissingInjector

MOUNTED = Path("/sys/fs/cgroup")
_numbers = itertools.count(1)


class Cgroup:
    """A group below the one that we are in ourselves. Use in a ``with`` block: at its end the processes go back, and the group is gone.

    Raises ``MissingInjector`` where there are no such groups, or no right to make one.
    """

    def __init__(self, controller: str) -> None:
        self._home = _home(controller)
        self._folder = self._home / f"onward-torture-{os.getpid()}-{next(_numbers)}"

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir()
        except OSError as error:
            raise MissingInjector(f"the control group {self._folder} cannot be made ({error.strerror}): run as root") from None
        return self

    def take(self, *roots: int) -> None:
        """Move these processes into the group, and all that came of them."""
        taken: set[int] = set()
        while new := {pid for root in roots for pid in _tree(root)} - taken:
            for pid in new:
                _move(pid, self._folder)
            taken |= new

    def set(self, name: str, value: object) -> None:
        """Set a limit. Raises ``MissingInjector`` where the kernel has none of this name."""
        if not (self._folder / name).exists():
            raise MissingInjector(f"this kernel has no {name} for control groups")
        (self._folder / name).write_text(str(value))

    def read(self, name: str) -> str:
        return (self._folder / name).read_text()

    def __exit__(self, *_: object) -> None:
        until = time.monotonic() + 5
        while True:
            for pid in self.read("cgroup.procs").split():
                _move(int(pid), self._home)
            try:
                self._folder.rmdir()
            except OSError:  # somebody was just being forked, or is not quite dead
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return


def _home(controller: str) -> Path:
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                # In a container the path may be one of the host, and what is mounted is our own group.
                for home in (MOUNTED / controller / path.lstrip("/"), MOUNTED / controller):
                    if (home / "cgroup.procs").exists():
                        return home
    raise MissingInjector(f"there are no control groups of version 1 with {controller!r} here, which make this fault (Linux only)")


def _tree(root: int) -> set[int]:
    try:
        process = psutil.Process(root)
        return {root, *(child.pid for child in process.children(recursive=True))}
    except psutil.NoSuchProcess:
        return set()


def _move(pid: int, folder: Path) -> None:
    with suppress(ProcessLookupError):
        (folder / "cgroup.procs").write_text(str(pid))
