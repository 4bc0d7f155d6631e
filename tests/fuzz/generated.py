"""Runs a target on inputs that are made at random from what a target says is near to its own, and makes short what it finds."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz import corpus
from tests.fuzz.known import recognise
from tests.fuzz.target import Examiner, Finding, Target

BATCH = 200


@dataclass
class Result:
    """What came of a target: how many inputs, the first finding that is new, and the known faults that were met."""

    target: str
    engine: str
    executions: int = 0
    finding: Finding | None = None
    known: frozenset[str] = frozenset()


def run(target: Target, seconds: float, chosen_seed: int) -> Result:
    """Check what is kept, then new inputs until the time is over or there is a finding. The same seed makes the same inputs."""
    examine, known = Examiner(target), set()
    until, batch = time.monotonic() + seconds, 0
    result = Result(target.name, "hypothesis")

    def check(data: bytes) -> None:
        try:
            examine(data)
        except Finding as finding:
            if (fault := recognise(finding)) is None:
                result.finding = finding
                raise
            known.add(fault.fault)

    def check_in_time(data: bytes) -> None:
        # The rest of a batch costs nothing any more; but what was found is made short, however long that takes.
        if not seconds or result.finding is not None or time.monotonic() <= until:
            check(data)

    try:
        for data in corpus.read(target.name):
            check(data)
        while batch == 0 or time.monotonic() < until:
            _one_batch(target, check_in_time, chosen_seed * 1_000_003 + batch)
            batch += 1
    except Finding as finding:
        result.finding = finding
    result.executions, result.known = examine.executions, frozenset(known)
    return result


def _one_batch(target: Target, check: object, chosen_seed: int) -> None:
    assert callable(check)
    chosen = settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )

    @seed(chosen_seed)
    @chosen
    @given(data=target.inputs)
    def one(data: bytes) -> None:
        check(data)

    one()
