"""What a run says, and when it has failed."""

from __future__ import annotations

import pytest

from tests.mutation.mutant import Mutant
from tests.mutation.report import GroupReport
from tests.mutation.trial import Trial, Verdict


def trial(verdict: Verdict, number: int, *, is_condition: bool = False) -> Trial:
    return Trial(Mutant("src/onward/invented.py", f"f{number}", number, "a", "b", (number,), is_condition), verdict)


def report(killed: int, *others: Trial) -> GroupReport:
    return GroupReport("rules", 500, [*(trial(Verdict.KILLED, number) for number in range(killed)), *others], 1.0)


def test_nine_of_ten_are_enough_and_less_is_not() -> None:
    assert report(9, trial(Verdict.SURVIVED, 10)).has_passed({})
    assert not report(8, trial(Verdict.SURVIVED, 10)).has_passed({})


def test_one_that_is_explained_counts_neither_way() -> None:
    """It changes nothing that a test could see, so it says nothing about the tests."""
    explained = trial(Verdict.EXPLAINED, 100)
    assert report(9, trial(Verdict.SURVIVED, 10), explained).has_passed({explained.mutant.name: "so"})
    assert not report(8, trial(Verdict.SURVIVED, 10), explained).has_passed({explained.mutant.name: "so"})


def test_one_that_timed_out_is_killed_and_one_that_no_test_reaches_is_not() -> None:
    assert report(0, trial(Verdict.TIMED_OUT, 1)).part_killed == 1
    assert report(0, trial(Verdict.UNREACHED, 1)).part_killed == 0


def test_a_surviving_condition_needs_a_reason() -> None:
    survivor = trial(Verdict.SURVIVED, 100, is_condition=True)
    assert not report(99, survivor).has_passed({})
    assert report(99, survivor).has_passed({survivor.mutant.name: "so"})


def test_a_trial_that_broke_proves_nothing() -> None:
    assert not report(99, trial(Verdict.BROKEN, 100)).has_passed({})


def test_figures_and_survivors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report(9, trial(Verdict.SURVIVED, 10, is_condition=True)).print({})
    assert capsys.readouterr().out == (
        "rules: 10 of 500 mutants, 9 killed, 0 timed out, 1 survived (0 of them reached by no test, 0 explained), 90.0% killed, "
        "90.0% of those without an explanation, 1 s\n"
        "  survived  src/onward/invented.py:10  invented:f10: a → b  (a condition, and NOT EXPLAINED)\n\n"
    )
