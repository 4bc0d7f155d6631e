"""A copy of the project with a bug in it, and what is run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.planted.bugs import Bug

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "examples", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")
LONGEST = 600.0
"""Seconds for a catcher; one that hangs has caught the bug as little as one that passes."""
FAILED = 1
"""The exit code of a check that found something: neither an error of its use, nor tests that were not there."""


class Catch(Struct, frozen=True):
    """What became of one bug."""

    bug: Bug
    is_caught: bool
    seconds: float
    output: str

    def __str__(self) -> str:
        return f"{self.bug.patch}: {'caught' if self.is_caught else 'NOT CAUGHT'} ({self.seconds:.1f} s)"


@contextmanager
def copy_with(bug: Bug) -> Iterator[Path]:
    """A copy of the project with this bug. Raises ``CalledProcessError`` where the patch fits no more: then write it anew."""
    with tempfile.TemporaryDirectory(prefix="onward-planted-") as folder:
        home = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, home / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, home / name)
        apply(bug, home)
        yield home


def apply(bug: Bug, home: Path, *, only_check: bool = False) -> None:
    """Apply the patch below ``home``, or see that it fits: a line on each side of a change says where it belongs."""
    flags = ["-C1", *(["--check"] if only_check else [])]
    subprocess.run(["git", "apply", *flags, str(bug.file)], cwd=home, check=True, capture_output=True, text=True)


def catch(bug: Bug) -> Catch:
    """Run what must find the bug."""
    began = time.monotonic()
    with copy_with(bug) as home:
        environment = {**os.environ, "PYTHONPATH": f"{home / 'src'}{os.pathsep}{home}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-m", *bug.catcher],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    is_caught = done.returncode == FAILED and re.search(bug.says, done.stdout) is not None
    return Catch(bug, is_caught, time.monotonic() - began, done.stdout)
