"""Tries mutants: each in a process of its own, which runs the tests that reach it until one of them fails."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import pytest

from tests.mutation.apply import apply, apply_at_import, is_for_new_process, prepare
from tests.mutation.mutant import Mutant
from tests.mutation.processes import Ended, Say, in_process, run_forked
from tests.mutation.reach import Reach
from tests.mutation.session import Tests, name_of, run_items, with_collected

LONGEST_TRIAL = 600.0
"""Seconds of tests, as they were recorded, after which a mutant counts as a survivor whatever the rest would say."""
LONGEST_CONTROL = 10.0
"""Seconds of tests that are run without any change first."""
PATIENCE_TO_COLLECT = 60.0


class Verdict(StrEnum):
    """How a mutant ended."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    UNREACHED = "unreached"
    EXPLAINED = "explained"
    BROKEN = "broken"
    NOT_APPLIED = "not applied"


@dataclass(frozen=True)
class Trial:
    """``by`` is the test that killed it, or what went wrong; ``seconds`` what it took."""

    mutant: Mutant
    verdict: Verdict
    by: str = ""
    seconds: float = 0.0

    @property
    def is_survivor(self) -> bool:
        """Also where no test reaches it, or nobody knows."""
        return self.verdict not in (Verdict.KILLED, Verdict.TIMED_OUT)


def try_mutants(mutants: Sequence[Mutant], reach: Reach, tests: Tests, jobs: int) -> Iterator[Trial]:
    """Try each, in no order. This process must not have imported the library: some mutants have to be there before."""
    anew = {one: LONGEST_TRIAL for one in mutants if is_for_new_process(one)}
    at_once = [one for one in mutants if one not in anew]
    for trial in in_process(lambda send: _try_collected(at_once, reach, tests, jobs, send)) if at_once else ():
        if trial.verdict == Verdict.NOT_APPLIED:
            anew[trial.mutant] = LONGEST_TRIAL
        elif trial.verdict in (Verdict.SURVIVED, Verdict.UNREACHED) and trial.mutant.file.endswith(".py"):
            anew[trial.mutant] = 0  # what the module made when it was imported was made without it, so its own tests are asked again
        else:
            yield trial
    if anew:
        first = next(iter(anew))
        unchanged = replace(first, after=first.before)
        for ended in run_forked([unchanged], lambda one, say: _try_anew(one, reach, say, LONGEST_CONTROL), 1):
            _check_control(_judged(ended))
    for ended in run_forked(anew, lambda one, say: _try_anew(one, reach, say, anew[one]), jobs):
        yield _judged(ended)


def _check_control(trial: Trial) -> None:
    """Nothing was changed: if a test fails nevertheless, then the failures prove nothing."""
    if trial.verdict not in (Verdict.SURVIVED, Verdict.UNREACHED):
        raise RuntimeError(f"without any mutant, {trial.verdict} by {trial.by}")


def _try_collected(mutants: Sequence[Mutant], reach: Reach, tests: Tests, jobs: int, send: Callable[[Trial], None]) -> None:
    """In one process that has imported everything and collected the tests, and forks another for each mutant."""
    killers: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=10))

    def fork_each(items: list[pytest.Item]) -> None:
        prepare()
        by_id = {name_of(item): item for item in items}

        def control(_: None, say: Say) -> None:
            found = {test for mutant in mutants for test in reach.of(mutant) if test in by_id}
            tests = within(LONGEST_CONTROL, sorted(found, key=lambda test: reach.tests[test]), reach.tests)
            run_until_one_fails([by_id[test] for test in tests], reach.tests, say)

        for controlled in run_forked([None], control, 1):
            _check_control(_judged(Ended(mutants[0], controlled.said, controlled.has_hung, controlled.seconds)))

        def work(mutant: Mutant, say: Say) -> None:
            found = reach.of(mutant)
            first = [test for test in killers[_neighbourhood(mutant)] if test in set(found)]
            tests = within(LONGEST_TRIAL, list(dict.fromkeys([*first, *found])), reach.tests)
            apply(mutant)
            run_until_one_fails([by_id[test] for test in tests if test in by_id], reach.tests, say)

        for ended in run_forked(mutants, work, jobs):
            trial = _judged(ended)
            if trial.by in by_id and trial.by not in killers[_neighbourhood(trial.mutant)]:
                killers[_neighbourhood(trial.mutant)].appendleft(trial.by)
            send(trial)

    if not with_collected(tests, fork_each):
        raise RuntimeError("the tests could not be collected")


def _neighbourhood(mutant: Mutant) -> str:
    """What killed one mutant of a block or function mostly kills the next."""
    return f"{mutant.file}:{mutant.place}"


def _try_anew(mutant: Mutant, reach: Reach, say: Say, limit: float) -> None:
    """In a process that imports the library with the mutant in it: first the tests that bear the module's name, then the others."""
    say({"patience": PATIENCE_TO_COLLECT})
    apply_at_import(mutant)
    found = reach.of(mutant)
    named = [test for test in reach.of(replace(mutant, place="")) if f"/test_{Path(mutant.file).stem}.py" in test]
    verdict = Verdict.SURVIVED if found or named else Verdict.UNREACHED
    for tests in (named, within(limit, [test for test in found if test not in named], reach.tests)):
        if tests and verdict == Verdict.SURVIVED:
            verdict = _collect_and_run(tests, reach, say)
    if verdict != Verdict.KILLED:  # else it has been said, and by what
        say({"verdict": verdict})


def _collect_and_run(tests: Sequence[str], reach: Reach, say: Say) -> Verdict:
    verdicts: list[Verdict] = []

    def run(items: list[pytest.Item]) -> None:
        by_id = {name_of(item): item for item in items}
        verdicts.append(run_until_one_fails([by_id[test] for test in tests if test in by_id], reach.tests, say))

    files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))
    say({"patience": PATIENCE_TO_COLLECT})
    if not with_collected(Tests(files), run):
        say({"verdict": Verdict.KILLED, "by": "importing the module fails"})
        return Verdict.KILLED
    return verdicts[0]


def within(limit: float, tests: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    """As many of the first as fit into so many seconds."""
    total = 0.0
    taken = []
    for test in tests:
        total += seconds[test]
        if total > limit:
            break
        taken.append(test)
    return taken


def run_until_one_fails(items: Sequence[pytest.Item], seconds: Mapping[str, float], say: Say) -> Verdict:
    """Run the tests and say how it went. Each may take ten times as long as it did when it was recorded, and ten seconds."""
    if not items:
        say({"verdict": Verdict.UNREACHED})
        return Verdict.UNREACHED

    def begin(item: pytest.Item) -> None:
        say({"patience": 10 + 10 * seconds[name_of(item)], "by": name_of(item)})

    for item, has_passed, _ in run_items(items, begin):
        if not has_passed:
            say({"verdict": Verdict.KILLED, "by": name_of(item)})
            return Verdict.KILLED
    say({"verdict": Verdict.SURVIVED})
    return Verdict.SURVIVED


def _judged(ended: Ended[Mutant]) -> Trial:
    said = ended.said
    by = str(said.get("by", ""))
    if "error" in said:
        is_unapplied = "NotApplied" in said["error"]
        return Trial(ended.task, Verdict.NOT_APPLIED if is_unapplied else Verdict.BROKEN, said["error"], ended.seconds)
    if "verdict" in said:
        return Trial(ended.task, Verdict(said["verdict"]), by, ended.seconds)
    if ended.has_hung:
        return Trial(ended.task, Verdict.TIMED_OUT, by, ended.seconds)
    return Trial(ended.task, Verdict.KILLED, f"{by} ended the process", ended.seconds)
