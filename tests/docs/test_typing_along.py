"""A reader types along: blocks are pasted at a prompt, and what they make on the way harms nothing."""

from __future__ import annotations

import ast
import builtins
import fnmatch
import re
from codeop import CommandCompiler
from pathlib import Path

import pytest

from tests.docs.test_code_blocks import ALL, FILE_NAME, PAGES, ROOT, Block, named

AT_A_PROMPT = [block for block in ALL if block.language == "python" and not FILE_NAME.search(block.options)]
BUILDS_ON = "one Python session"
"""Words of the sentence that says so, before the first block that needs an earlier one."""


@pytest.mark.parametrize("block", AT_A_PROMPT, ids=lambda block: f"{named(block.page)}:{block.line}")
def test_a_block_can_be_pasted_at_a_prompt(block: Block) -> None:
    """There a blank line ends a compound statement, and nothing else does: else the reader's first answer is a SyntaxError."""
    assert refused_line(block.text) is None


@pytest.mark.parametrize(
    "text",
    ["try:\n    x = 1\nfinally:\n    x = 2\nassert x\n", "def f():\n    x = 1\n\n    return x\n"],
    ids=["no blank line behind a block", "a blank line inside of one"],
)
def test_a_block_that_a_prompt_refuses_is_noticed(text: str) -> None:
    """The check above must be able to fail."""
    assert refused_line(text) is not None


def refused_line(text: str) -> str | None:
    """The first line with which the interactive interpreter would answer with a SyntaxError."""
    compiler, waiting = CommandCompiler(), ""
    for line in (*text.splitlines(), ""):
        waiting += f"{line}\n"
        try:
            complete = compiler(waiting.removesuffix("\n"), symbol="single") is not None
        except SyntaxError as error:
            return f"{line} ({error.msg})"
        waiting = "" if complete else waiting
    return None


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_whose_blocks_build_on_one_another_says_so(page: Path) -> None:
    """Who begins in the middle gets a NameError, and does not know what for."""
    made: set[str] = set()
    for block in AT_A_PROMPT:
        if block.page != page:
            continue
        needs, makes = names_of(block.text)
        if needs & made:
            before = "\n".join(block.page.read_text(encoding="utf-8").splitlines()[: block.line])
            assert BUILDS_ON in before, f"{named(block.page)}:{block.line} needs {sorted(needs & made)}"
        made |= makes


def names_of(text: str) -> tuple[set[str], set[str]]:
    """Which names a block needs from before it, as far as the order of its statements says, and which it makes."""
    needs: set[str] = set()
    made: set[str] = set(dir(builtins))
    for statement in ast.parse(text).body:
        nodes = list(ast.walk(statement))
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
        stored |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        stored |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
        stored |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
        inner = {node.arg for node in nodes if isinstance(node, ast.arg)}
        needs |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} - made - stored - inner
        made |= stored
    return needs, made - set(dir(builtins))


def test_no_page_makes_an_environment_where_make_has_its_own() -> None:
    """``make`` would run what was installed there, or turn the reader's environment into one for development."""
    makefile = (ROOT / "Makefile").read_text()
    (own,) = re.findall(r"^VENV := (\S+)$", makefile, re.MULTILINE)
    (removed,) = re.findall(r"^\trm -rf (.+)$", makefile, re.MULTILINE)
    taken = [own, *removed.split()]
    made = [(named(block.page), name) for block in ALL for name in re.findall(r"-m venv (\S+)", block.text)]
    assert made
    assert [(page, name) for page, name in made if any(fnmatch.fnmatch(name, pattern) for pattern in taken)] == []
    assert "`.venv`" in next(line for line in blocks_text("README.md") if "pip install ." in line)


def blocks_text(name: str) -> list[str]:
    return (ROOT / name).read_text(encoding="utf-8").splitlines()
