"""Programs of the tests under strace, and the lines it writes."""

from __future__ import annotations

import compileall
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.torture.injectors import strace

ROOT = Path(__file__).parents[2]
PATIENCE = 120
"""Seconds after which a program is taken to hang."""
HANGS = 124
"""The exit code of one that does."""

# Whatever changes a file or a directory, and the locks between which SQLite does it.
WRITES = ("pwrite64", "pwritev", "pwritev2", "write", "writev", "ftruncate", "fallocate")
SYNCS = ("fsync", "fdatasync", "sync_file_range")
NAMES = ("openat", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "mkdir", "mkdirat")
LOCKS = ("fcntl", "flock")
_LINE = re.compile(r"(?P<pid>\d+) +(?:<\.\.\. )?(?P<name>\w+)(?P<resumed> resumed>)?(?P<rest>.*)")


class Call(Struct, frozen=True):
    """One line of strace: a system call of a thread, or the half of one that was interrupted by a line of another thread."""

    pid: int
    name: str
    text: str
    """Arguments and result, as they stand there."""
    begins: bool = True
    ends: bool = True

    @property
    def has_failed(self) -> bool:
        return self.ends and re.search(r"\) += (-1|\?)", self.text) is not None


def read_calls(trace: Path) -> Iterator[Call]:
    """Read what strace wrote; what is no system call is passed over."""
    with trace.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            match = _LINE.match(line)
            if match is None or match["name"] in ("exited", "killed"):
                continue
            unfinished = line.rstrip().endswith("<unfinished ...>")
            yield Call(int(match["pid"]), match["name"], match["rest"], begins=not match["resumed"], ends=not unfinished)


def environment() -> dict[str, str]:
    """What a program needs so that it makes the same system calls each time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "PYTEST", "COV_"))}
    search = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return kept | {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": search}


def compile_modules() -> None:
    """Compile what the programs import, so that each of them opens the same files."""
    for folder in ("src/onward", "tests/torture"):
        compileall.compile_dir(ROOT / folder, quiet=2)


def run_python(arguments: Sequence[str], *tracing: str, before: Callable[[], object] | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``python -m ARGUMENTS``, under strace if there are options for it. ``before`` runs in the child."""
    tracer = [strace(), "-f", *tracing] if tracing else []
    command = [*tracer, sys.executable, "-m", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # In a session of its own, so that what strace leaves behind when it is killed can be ended with it.
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), start_new_session=True, preexec_fn=before, **pipes)
    try:
        output, errors = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        _kill(process)
        output, errors = process.communicate()
        return subprocess.CompletedProcess(command, HANGS, output, f"{errors}\nit had not ended after {PATIENCE} s")
    except BaseException:
        _kill(process)
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
