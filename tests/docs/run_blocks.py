"""Run the blocks of one page in the current directory. A process of its own, so that pages cannot disturb one another.

``python`` blocks share one namespace. A block titled with a file name is written to that file, and not run. In ``console`` blocks each line
that begins with ``$`` is run by the shell, and the lines below it must be its output; ``...`` stands for any text, and a command with
no output shown may print what it likes. A command followed by ``# exits with N`` must do so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

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
    else:
        for command, expected in commands(step["text"]):
            check_command(command, expected)


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
    wanted_code = int(code[1]) if (code := EXIT.search(command)) else 0
    answer = subprocess.run(
        EXIT.sub("", command), shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=60
    )
    assert answer.returncode == wanted_code, f"$ {command}\nexit code {answer.returncode}, not {wanted_code}\n{answer.stdout}"
    if expected:
        pattern = re.escape(expected.strip()).replace(r"\.\.\.", r"[\s\S]*?")
        assert re.fullmatch(pattern, answer.stdout.strip()), f"$ {command}\nprinted:\n{answer.stdout}\nnot:\n{expected}"


if __name__ == "__main__":
    raise SystemExit(main())
