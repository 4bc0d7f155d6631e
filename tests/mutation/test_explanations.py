"""An explanation holds for mutants that exist, and says why."""

from __future__ import annotations

import pytest

from tests.mutation.explanations import FILE, read_explanations, without_mutant
from tests.mutation.groups import GROUPS


def test_each_mutant_of_an_explanation_has_its_reason() -> None:
    assert read_explanations('[[because]]\nreason = "so"\nmutants = ["one", "two"]\n') == {"one": "so", "two": "so"}


@pytest.mark.parametrize("text", ['[[because]]\nreason = " "\nmutants = ["one"]\n', '[[because]]\nreason = "so"\nmutants = []\n'])
def test_a_reason_without_a_mutant_or_a_mutant_without_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an explanation without a reason"):
        read_explanations(text)


def test_a_mutant_is_explained_once() -> None:
    with pytest.raises(ValueError, match="explained twice: one"):
        read_explanations('[[because]]\nreason = "so"\nmutants = ["one", "one"]\n')


def test_an_explanation_of_a_mutant_that_is_gone_is_found() -> None:
    """The code has changed, and nobody has looked whether the reason still holds."""
    assert without_mutant({"here": "so", "gone": "so"}, ["here", "another"]) == ["gone"]


def test_every_explained_mutant_exists() -> None:
    names = [one.name for group in GROUPS for one in group.mutants()]
    assert without_mutant(read_explanations(FILE.read_text(encoding="utf-8")), names) == []
