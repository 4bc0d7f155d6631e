"""The mutator of Python makes the mutants that it should, and no others."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.groups import GROUPS, Group
from tests.mutation.mutant import ROOT
from tests.mutation.python import python_mutants

FILE = "src/onward/invented.py"


def changed(line: str) -> set[str]:
    """What a line of a function becomes, as Python would write it."""
    text = f"def f(a, b):\n    {line}\n"
    return {ast.unparse(ast.parse(one.applied(text)).body[0].body[0]) for one in python_mutants(FILE, text)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("x = a < b", {"x = a <= b"}),
        ("x = a >= b", {"x = a > b"}),
        ("x = a == b", {"x = a != b"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a in b", {"x = a not in b"}),
        ("x = a and b", {"x = a or b"}),
        ("x = a or b", {"x = a and b"}),
        ("x = not a", {"x = a"}),
        ("x = a + b", {"x = a - b"}),
        ("x = a // b", {"x = a * b"}),
        ("x = 5", {"x = 5 + 1"}),
        ("x = True", {"x = False"}),
        ("x = 'word'", {"x = 'XXwordXX'"}),
        ("x = f(a, key=b)", {"x = f(a)"}),
        ("return a", {"return None"}),
        ("f(a)", {"pass"}),
        ("a.x = b", {"pass"}),
        ("raise a", {"pass"}),
        ("x = 1 if a else 0", {"x = 1 if not a else 0", "x = 1 + 1 if a else 0", "x = 1 if a else 0 + 1"}),
        ("x = [c for c in a if c]", {"x = [c for c in a if not c]"}),
    ],
)
def test_a_line_becomes(line: str, becomes: set[str]) -> None:
    assert changed(line) == becomes


@pytest.mark.parametrize("line", ["x = 'a message for a person'", "x = f'{a + 1}'", "x: 'Word' = a", "'''Docstring.'''", "return None"])
def test_what_only_people_read_is_left_alone(line: str) -> None:
    assert changed(line) == set()


def test_a_method_is_named_with_its_class_and_a_constant_with_the_module() -> None:
    text = "LIMIT = 5\n\nclass A:\n    def f(self):\n        return 1\n"
    assert [one.name for one in python_mutants(FILE, text)] == [
        *("invented: 5 → 5 + 1", "invented:A.f: 1 → 1 + 1", "invented:A.f: return 1 → return None")
    ]


@pytest.mark.parametrize("group", [group for group in GROUPS if not group.name.startswith("sql-")], ids=lambda group: group.name)
def test_every_mutant_of_the_library_compiles_and_has_a_name_of_its_own(group: Group) -> None:
    """One that does not would count as killed by whatever imports it."""
    mutants = group.mutants()
    assert len({one.name for one in mutants}) == len(mutants) > 400
    for one in mutants:
        compile(one.applied((ROOT / one.file).read_text(encoding="utf-8")), one.file, "exec")
