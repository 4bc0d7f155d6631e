"""Every code block of the README and the documentation runs.

The Python blocks of a page run in order, in one namespace, in an empty directory, as a reader would type them. Blocks of other
languages that the tests know how to check are checked; a language they do not know is a failure, not a pass.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from onward.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
FENCE = re.compile(r"^```([a-z]*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN_ONLY = {"text", "mermaid", "ini"}
"""Output, drawings and unit files: nothing that runs."""
DATABASE = re.compile(r'db="([^"]+)"')
FILE_NAME = re.compile(r'title="([^"]+)"')
RUN_BLOCKS = ROOT / "tests" / "docs" / "run_blocks.py"


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    options: str
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2].strip(), found[3]) for found in FENCE.finditer(text)]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


ALL = [block for page in PAGES for block in blocks(page)]
WITH_CODE = [page for page in PAGES if any(block.language in {"python", "console", "sql"} for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=named)
def test_the_code_of_a_page_runs_as_it_stands(page: Path, tmp_path: Path) -> None:
    """A reader copies what is on the page; what does not run there costs the trust in everything else."""
    steps: list[dict[str, Any]] = []
    for block in blocks(page):
        if title := FILE_NAME.search(block.options):
            steps.append({"kind": "file", "name": title[1], "text": block.text, "line": block.line})
        elif block.language in {"python", "console"}:
            steps.append({"kind": block.language, "text": block.text, "line": block.line})
        elif block.language == "sql":
            database = DATABASE.search(block.options)
            assert database, f'{named(page)}:{block.line} does not say which database: ```sql db="app.db"'
            steps.append({"kind": "sql", "database": database[1], "text": block.text, "line": block.line})
    (tmp_path / "steps.json").write_text(json.dumps({"page": str(page), "steps": steps}))
    room = tmp_path / "room"
    room.mkdir()
    answer = subprocess.run(
        [sys.executable, str(RUN_BLOCKS), str(tmp_path / "steps.json")],
        cwd=room,
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # pages of examples say "from the root of the repository"
    )
    assert answer.returncode == 0, f"{named(page)}\n{answer.stdout}\n{answer.stderr}"


@pytest.mark.parametrize(
    "block", [block for block in ALL if block.language == "toml"], ids=lambda block: f"{named(block.page)}:{block.line}"
)
def test_a_toml_block_can_be_read(block: Block) -> None:
    """A settings file is copied as it stands."""
    assert tomllib.loads(block.text)


@pytest.mark.parametrize(
    "block", [block for block in ALL if block.language == "json"], ids=lambda block: f"{named(block.page)}:{block.line}"
)
def test_a_json_block_can_be_read(block: Block) -> None:
    """Programs are written against the shape that is shown."""
    assert [json.loads(line) for line in block.text.splitlines() if line.strip()]


@pytest.mark.parametrize("block", [block for block in ALL if block.language == "sh"], ids=lambda block: f"{named(block.page)}:{block.line}")
def test_a_shell_block_names_commands_that_exist(block: Block) -> None:
    """``sh`` blocks install, build or run for ever, so only their words are checked: make targets, pip and onward."""
    targets = set(re.findall(r"^([a-z-]+)(?: [a-z-]+)*:", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets |= {name for line in re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE) for name in line.split()}
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert {word for word in words[1:] if "=" not in word} <= targets
        elif words[:1] == ["onward"]:
            check_command_line(words[1:])
        elif words[:2] == ["python", "-m"]:
            assert importlib.util.find_spec(words[2]), line
        elif words:
            assert words[0] in {"pip", "git", "cd", "sudo", "journalctl", "."}, line


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_command_in_a_sentence_exists(page: Path) -> None:
    """It is typed as well as any in a block."""
    for words in re.findall(r"`onward ([^`]+)`", FENCE.sub("", page.read_text(encoding="utf-8"))):
        with contextlib.suppress(click.MissingParameter):  # a sentence may name a command without all that it needs
            check_command_line(shlex.split(words))


def check_command_line(words: list[str]) -> None:
    """Read an ``onward`` command line as the program would, without running it. Raises ``click.UsageError``."""
    if words[-1:] == ["ID"]:
        words = [*words[:-1], "01JE0000000000000000000000"]
    command: click.Command = cli
    context = cli.make_context("onward", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return  # the name of a group alone
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        if isinstance(found, click.Group) and not rest:
            return
        command, context = found, found.make_context(name, rest, parent=context)


@pytest.mark.parametrize(
    "words",
    [
        "wrker",
        "worker --concurency 8",
        "jobs shw ID",
        "jobs retry --stauts queued",
        "jobs show",
        "stats --queues",
        "worker --concurrency many",
    ],
)
def test_a_wrong_command_line_is_noticed(words: str) -> None:
    """The check above must be able to fail."""
    with pytest.raises(click.UsageError):
        check_command_line(shlex.split(words))


def test_no_code_hides_in_an_indented_block() -> None:
    """Markdown shows it as code, and no test would look at it. Drawings are fenced as text."""
    hidden = []
    for page in PAGES:
        before, listed = "", False
        for line in FENCE.sub("", page.read_text(encoding="utf-8")).splitlines():
            listed = bool(re.match(r" *([-*]|\d+\.) ", line)) or (listed and (not line.strip() or line.startswith(" ")))
            if line.startswith("    ") and not before.strip() and not listed:
                hidden.append(f"{named(page)}: {line.strip()}")
            before = line
    assert hidden == []


def test_every_block_says_a_language_that_is_checked() -> None:
    """A block that no test looks at rots unseen."""
    known = SHOWN_ONLY | {"python", "console", "toml", "json", "sh", "sql"}
    assert [f"{named(block.page)}:{block.line}" for block in ALL if block.language not in known] == []


def test_every_link_between_pages_leads_somewhere() -> None:
    """A dead link is a page that the reader was promised."""
    dead = [
        f"{named(page)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", FENCE.sub("", page.read_text(encoding="utf-8")))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert dead == []


def test_a_page_with_a_broken_block_fails(tmp_path: Path) -> None:
    """The runner must notice errors in Python, a failed command and output that differs."""
    for step in (
        {"kind": "python", "text": "assert 1 == 2\n", "line": 1},
        {"kind": "console", "text": "$ python -c 'raise SystemExit(3)'\n", "line": 1},
        {"kind": "console", "text": "$ python -c 'print(1)'\n2\n", "line": 1},
        {"kind": "sql", "database": "missing.db", "text": "SELECT 1;\n", "line": 1},
        {"kind": "sql", "database": "steps.json", "text": "SELECT 1 FROM nowhere;\n", "line": 1},
    ):
        (tmp_path / "steps.json").write_text(json.dumps({"page": "page.md", "steps": [step]}))
        answer = subprocess.run([sys.executable, str(RUN_BLOCKS), "steps.json"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert answer.returncode == 1, step
