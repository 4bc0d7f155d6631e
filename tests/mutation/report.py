"""What a run found: a line for each group, the survivors, and whether that is good enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.mutation.trial import Trial, Verdict

ENOUGH = 0.9
"""Of the mutants that are not explained: those change nothing that anybody could notice."""


@dataclass(frozen=True)
class GroupReport:
    """``available`` is how many mutants the group has, of which ``trials`` may be a sample."""

    name: str
    available: int
    trials: Sequence[Trial]
    seconds: float

    @property
    def survivors(self) -> list[Trial]:
        """In the order of the code."""
        return sorted((one for one in self.trials if one.is_survivor), key=lambda one: (one.mutant.file, one.mutant.line, one.mutant.name))

    @property
    def part_killed(self) -> float:
        """From 0 to 1; timed out counts as killed."""
        return 1 - len(self.survivors) / len(self.trials) if self.trials else 1.0

    def score(self, explanations: Mapping[str, str]) -> float:
        """The part killed of those that no explanation calls harmless, from 0 to 1."""
        harmful = len(self.trials) - self.explained(explanations)
        return 1 - (len(self.survivors) - self.explained(explanations)) / harmful if harmful else 1.0

    def explained(self, explanations: Mapping[str, str]) -> int:
        """How many survivors have a reason."""
        return sum(one.mutant.name in explanations for one in self.survivors)

    def unexplained(self, explanations: Mapping[str, str]) -> list[Trial]:
        """Survivors in a WHERE, ON or HAVING without a reason."""
        return [one for one in self.survivors if one.mutant.is_condition and one.mutant.name not in explanations]

    def has_passed(self, explanations: Mapping[str, str]) -> bool:
        """Whether enough was killed and the rest is explained where it must be."""
        is_sound = all(one.verdict != Verdict.BROKEN for one in self.trials)
        return is_sound and self.score(explanations) >= ENOUGH and not self.unexplained(explanations)

    def print(self, explanations: Mapping[str, str]) -> None:
        """Print the figures and every survivor."""
        counts = Counter(one.verdict for one in self.trials)
        sampled = f"{len(self.trials)} of {self.available}" if len(self.trials) < self.available else f"{self.available}"
        print(
            f"{self.name}: {sampled} mutants, {counts[Verdict.KILLED]} killed, {counts[Verdict.TIMED_OUT]} timed out, "
            f"{len(self.survivors)} survived ({counts[Verdict.UNREACHED]} of them reached by no test, "
            f"{self.explained(explanations)} explained), {self.part_killed:.1%} killed, "
            f"{self.score(explanations):.1%} of those without an explanation, {self.seconds:.0f} s"
        )
        for one in self.survivors:
            reason = explanations.get(one.mutant.name)
            needed = "  (a condition, and NOT EXPLAINED)" if one.mutant.is_condition and reason is None else ""
            print(f"  {one.verdict}  {one.mutant.file}:{one.mutant.line}  {one.mutant.name}{f'  ({reason})' if reason else needed}")
            if one.verdict == Verdict.BROKEN:
                print(one.by)
        print(flush=True)
