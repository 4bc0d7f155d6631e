"""Run the blocks of one page in the current directory. A process of its own, so that pages cannot disturb one another.

``python`` blocks share one namespace. A block titled with a file name is written to that file, and not run. In ``console`` blocks each line
that begins with ``$`` is run by the shell, and the lines below it must be its output; ``...`` stands for any text, and a command with
no output shown may print what it likes. A command followed by ``# exits with N`` must do so. ``sql`` blocks are asked of the database that
``db="..."`` names, read only, and must find something.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import traceback
from pathlib import Path

LONGEST_COMMAND = 40
"""Seconds; the page as a whole must stay below the time limit of its test."""

EXIT = re.compile(r"\s+# exits with (\d+)$")


def main() -> int:
    """Run every step; 1 with the page and line of the first that fails."""
    told = json.loads(Path(sys.argv[1]).read_text())
    # Commands of the page find the `python` and `onward` that run the tests, and nothing of the tests' own settings.
    scripts = Path(sys.executable).parent
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    for name in [name for name in os.environ if name.startswith(("ONWARD_", "PYTEST_"))]:
        del os.environ[name]
    os.environ["NO_COLOR"] = "1"
    sys.path.insert(0, os.getcwd())
    namespace: dict[str, object] = {"__name__": "__main__"}
    for step in told["steps"]:
        try:
            run(step, told["page"], namespace)
        except BaseException:
            traceback.print_exc()
            print(f"\nfailed: the block at {told['page']}:{step['line']}", file=sys.stderr)
            return 1
    return 0


def run(step: dict[str, str], page: str, namespace: dict[str, object]) -> None:
    """Run one block."""
    if step["kind"] == "file":
        Path(step["name"]).parent.mkdir(parents=True, exist_ok=True)
        Path(step["name"]).write_text(step["text"])
    elif step["kind"] == "python":
        padded = "\n" * int(step["line"]) + step["text"]
        exec(compile(padded, page, "exec"), namespace)
    elif step["kind"] == "sql":
        ask(step["database"], step["text"])
    else:
        for command, expected in commands(step["text"]):
            check_command(command, expected)


def ask(database: str, text: str) -> None:
    """Run queries over a database that the page made; each must find something."""
    assert Path(database).exists(), f"the page made no {database}"
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for query in text.split(";"):
            if query.strip():
                assert connection.execute(query).fetchall(), f"{query.strip()}\nfound nothing"


def commands(text: str) -> list[tuple[str, str]]:
    """Cut a console block into commands and what they print."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            command, expected = found[-1]
            found[-1] = (command, f"{expected}{line}\n")
    return found


def check_command(command: str, expected: str) -> None:
    """Run one command and compare its exit code and its output."""
    wanted_code = int(told[1]) if (told := EXIT.search(command)) else 0
    code, printed = run_to_end(EXIT.sub("", command))
    assert code == wanted_code, f"$ {command}\nexit code {code}, not {wanted_code}\n{printed}"
    if expected:
        pattern = re.escape(expected.strip()).replace(r"\.\.\.", r"[\s\S]*?")
        assert re.fullmatch(pattern, printed.strip()), f"$ {command}\nprinted:\n{printed}\nnot:\n{expected}"


def run_to_end(command: str) -> tuple[int, str]:
    """Run a shell command in a process group of its own; whatever it started ends with it, also when it takes too long."""
    with subprocess.Popen(
        command, shell=True, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=LONGEST_COMMAND)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            raise AssertionError(f"$ {command}\ndid not end within {LONGEST_COMMAND} s and printed:\n{printed}") from None
    return process.returncode, printed


if __name__ == "__main__":
    raise SystemExit(main())
