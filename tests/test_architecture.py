"""Imports point down, and the tree has no drawers for odds and ends."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "onward"
MODULES = sorted(SOURCE.rglob("*.py"))
DRAWERS = {"utils", "util", "helpers", "common", "misc", "base", "tools", "shared"}
LONGEST_FILE = 400


def contracts() -> list[dict[str, object]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = settings["tool"]["importlinter"]["contracts"]
    return found


def run_import_linter(folder: Path) -> subprocess.CompletedProcess[str]:
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    return subprocess.run([sys.executable, "-c", lint], cwd=folder, capture_output=True, text=True, timeout=100)


def imported_by(module: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions and for type checkers too."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_imports_point_down() -> None:
    """A rule that reaches into a driver, or a worker into the command line, cannot be understood alone."""
    answer = run_import_linter(ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_import_contracts_have_no_exceptions() -> None:
    """The first exception is where a layer ends."""
    assert {contract["type"] for contract in contracts()} == {"layers", "independence"}
    assert [contract["name"] for contract in contracts() if any("ignore" in word for word in contract)] == []


def test_the_layers_contract_notices_an_import_that_points_up(tmp_path: Path) -> None:
    """A contract that passes whatever the code does is no contract."""
    package = tmp_path / "onward"
    package.mkdir()
    for name in ("__init__", "status", "cli"):
        (package / f"{name}.py").write_text("")
    (package / "status.py").write_text("import onward.cli\n")
    root = '[tool.importlinter]\nroot_package = "onward"\n'
    contract = '[[tool.importlinter.contracts]]\nname = "down"\ntype = "layers"\nlayers = ["onward.cli", "onward.status"]\n'
    (tmp_path / "pyproject.toml").write_text(root + contract)
    assert run_import_linter(tmp_path).returncode == 1


def test_drivers_stand_alone() -> None:
    """Only ``drivers/__init__.py`` knows which drivers there are; a second place would have to change for each new one."""
    knowing = {
        str(module.relative_to(SOURCE)): name
        for module in MODULES
        if module.relative_to(SOURCE).parts[:1] not in {("drivers",), ("testing",)}
        for name in imported_by(module)
        if name.startswith("onward.drivers.")
    }
    assert knowing == {}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_named_after_what_it_holds_and_can_be_read_in_one_sitting(module: Path) -> None:
    """The tree is the table of contents."""
    assert module.stem.lstrip("_") not in DRAWERS
    assert len(module.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_begins_with_what_it_is_for(module: Path) -> None:
    """A reader who opens a file should know in one line whether it is the right one."""
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
