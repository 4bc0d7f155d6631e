"""The search: breadth first over everything that can happen, until there is no state that was not seen."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from time import process_time

from tests.model import persons, upkeep, workers
from tests.model.alike import as_one, order_of
from tests.model.judge import is_done, judge_state, judge_step
from tests.model.rules import Rules, small_caps
from tests.model.state import Scope, State, start
from tests.model.step import Step


@dataclass
class Report:
    """What a search found. ``violation`` is the sentence, ``trace`` the shortest way to it."""

    scope: Scope
    states: int = 0
    transitions: int = 0
    arrows: set[tuple[str, str, str]] = field(default_factory=set)
    """From which status by which verb to which, of all steps."""
    longest: int = 0
    """Steps to the state that is farthest from the start."""
    seconds: float = 0.0
    """Of processor time, so that busy neighbours do not count."""
    violation: str | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = (
            f"{self.scope.name}: {self.states:,} states, {self.transitions:,} transitions, at most {self.longest} steps deep, "
            f"{self.seconds:.1f} s"
        )
        if self.violation is None:
            return f"{head}: everything holds"
        steps = [f"  {number:2}. {step}" for number, step in enumerate(self.trace, 1)]
        return "\n".join([head, *steps, f"  =>  {self.violation}"])


def search(scope: Scope, rules: type[Rules] = Rules, *, within: int | None = None) -> Report:
    """Look at every state that can be reached. Stops at the first violation, which has the shortest trace, or after ``within`` states."""
    began = process_time()
    report = Report(scope)
    with small_caps(), _without_collections():
        _Search(scope, rules(scope.max_attempts), report).run(within)
    report.seconds = process_time() - began
    return report


@contextmanager
def _without_collections() -> Iterator[None]:
    """Values have no cycles, so that looking for those is the third of the time for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Search:
    def __init__(self, scope: Scope, rules: Rules, report: Report) -> None:
        self.scope = scope
        self.rules = rules
        self.report = report
        first = start(scope)
        self.numbers: dict[State, int] = {first: 0}
        self.states: list[State] = [first]
        self.parents = array("l", [-1])
        self.depths = array("l", [0])
        # What workers and the clock alone can do, for the judgement at the end: the successors of state n lie between two of the ends.
        self.unaided = array("l")
        self.ends = array("l")

    def run(self, within: int | None) -> None:
        number = 0
        while number < len(self.states) and (within is None or number < within):
            violation = self._expand(number)
            if violation:
                self._report(*violation)
                return
            number += 1
        self.report.states = len(self.states)
        if within is None:
            self._judge_liveness()

    def _expand(self, number: int) -> tuple[str, int, Step] | None:
        before = self.states[number]
        for step in every_step(before, self.scope, self.rules):
            self.report.transitions += 1
            violation = judge_step(before, step, self.scope)
            for done in step.changes:
                if done.before is not None and done.after is not None:
                    self.report.arrows.add((done.before.status, done.verb, done.after.status))
            # What leaves the processes as they are is in order already.
            after = step.state if step.state.processes is before.processes else as_one(step.state)
            found = self.numbers.setdefault(after, len(self.states))
            if found == len(self.states):
                violation = violation or judge_state(after, self.scope)
                self.states.append(after)
                self.parents.append(number)
                self.depths.append(self.depths[number] + 1)
                self.report.longest = self.depths[-1]
            if violation:
                return violation, number, step
            if not step.is_help and found != number:
                self.unaided.append(found)
        self.ends.append(len(self.unaided))
        return None

    def _report(self, violation: str, number: int, last: Step) -> None:
        self.report.states = len(self.states)
        self.report.violation = violation
        texts, names = self._trace(number)
        self.report.trace = [*texts, last.told(names)]

    def _trace(self, number: int) -> tuple[list[str], str]:
        """Find the steps again that lead to a state. Gives as well how its processes are called by then."""
        path = [number]
        while path[-1] > 0:
            path.append(self.parents[path[-1]])
        path.reverse()
        texts, names = [], "ABC"
        for before, after in pairwise(path):
            wanted = self.states[after]
            step = next(step for step in every_step(self.states[before], self.scope, self.rules) if as_one(step.state) == wanted)
            texts.append(step.told(names))
            names = "".join(names[place] for place in order_of(step.state))
        return texts, names

    def _judge_liveness(self) -> None:
        """From every state, workers and clock must be able to bring every job to its end, without any person's help."""
        can_end = bytearray(is_done(state) for state in self.states)
        has_grown = True
        while has_grown:
            has_grown = False
            for number in range(len(self.states) - 1, -1, -1):
                if not can_end[number]:
                    begin = self.ends[number - 1] if number else 0
                    if any(can_end[after] for after in self.unaided[begin : self.ends[number]]):
                        can_end[number] = has_grown = True
        stuck = can_end.find(0)
        if stuck >= 0:
            self.report.violation = "from here on some job can never come to its end"
            self.report.trace, _ = self._trace(stuck)


def every_step(state: State, scope: Scope, rules: Rules) -> Iterable[Step]:
    """Give everything that can happen next."""
    return chain(persons.steps(state, scope, rules), workers.steps(state, scope, rules), upkeep.steps(state, scope, rules))
