"""The tools that inject faults, and what the tests do where one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from functools import cache
from typing import NoReturn


class MissingInjector(Exception):
    """A tool is missing, or may not do its work here. Says which, and what to do."""


def is_ci() -> bool:
    """Whether every injector must be there: said by who has installed them."""
    return os.environ.get("ONWARD_INJECTORS") == "needed"


def do_without(reason: MissingInjector) -> NoReturn:
    """A fault that was not injected must not pass unseen in CI; elsewhere its test is skipped."""
    import pytest

    if is_ci():
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(str(reason))


@cache
def strace() -> str:
    """Where strace is, once it was seen to inject a fault. Raises ``MissingInjector``."""
    found = shutil.which("strace")
    if found is None:
        raise MissingInjector("strace is not installed, and it injects this fault: apt-get install strace (Linux only)")
    command = [found, "-f", "-o", os.devnull, "-e", "trace=getppid", "-e", "inject=getppid:retval=77"]
    probe = [sys.executable, "-I", "-S", "-c", "import os; print(os.getppid())"]
    done = subprocess.run([*command, *probe], capture_output=True, text=True, check=False)
    if done.stdout.strip() != "77":
        why = (done.stderr.strip().splitlines() or ["it changed nothing"])[-1]
        raise MissingInjector(f"strace cannot inject faults here ({why}): allow ptrace, in a container by --cap-add SYS_PTRACE")
    return found


def strace_version() -> str:
    """The release of strace."""
    shown = subprocess.run([strace(), "--version"], capture_output=True, text=True, check=True).stdout
    return shown.splitlines()[0].split()[-1]


def mount_tool() -> str:
    """Where ``mount`` is, for somebody who may use it. Raises ``MissingInjector``."""
    found = shutil.which("mount")
    if found is None or os.geteuid() != 0:
        raise MissingInjector("mounting a file system, which makes this fault, needs root and mount: run the tests as root")
    probe = ["unshare", "--mount", found, "-t", "tmpfs", "tmpfs", "/mnt"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False) if shutil.which("unshare") else None
    if done is None or done.returncode:
        why = "there is no unshare to try it with" if done is None else done.stderr.strip()
        raise MissingInjector(f"mounting a file system, which makes this fault, is not allowed here ({why})")
    return found


@cache
def other_monotonic(seconds: int) -> tuple[str, ...]:
    """What stands before a command whose monotonic clock is to be ahead by so much. Raises ``MissingInjector``."""
    found = shutil.which("unshare")
    if found is None:
        raise MissingInjector("unshare, which moves the monotonic clock of a process, is not installed: it is part of util-linux")
    command = (found, "--time", "--monotonic", str(seconds))
    # Asked of the child that the probe starts: some kernels move the clock only of those.
    probe = "import subprocess, sys; subprocess.run([sys.executable, '-ISc', 'import time; print(time.monotonic())'])"
    done = subprocess.run([*command, sys.executable, "-ISc", probe], capture_output=True, text=True, check=False)
    if done.returncode or float(done.stdout or 0) < time.monotonic() + seconds / 2:
        why = (done.stderr.strip().splitlines() or ["it changed nothing"])[-1]
        raise MissingInjector(f"the monotonic clock of a process cannot be moved here ({why}): it needs root and Linux 5.6")
    return command
